module google.golang.org/genproto/googleapis/api

go 1.26
