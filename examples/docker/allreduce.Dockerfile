# gorun and a Go worker, examples/allreduce, and nothing else.
# From the repository's root: docker build -f examples/docker/allreduce.Dockerfile -t gorun-allreduce .
ARG GO_IMAGE=golang:1.26-bookworm

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY . .
ENV CGO_ENABLED=0
RUN go build -trimpath -ldflags "-s -w" -o /out/gorun ./cmd/gorun
RUN go build -trimpath -ldflags "-s -w" -o /out/allreduce ./examples/allreduce

FROM scratch
COPY --from=build /out/ /
# docker stop kills after 10 s: before that the workers have ended, so that their
# last words and the exit code are kept.
ENV GORUN_SHUTDOWN_TIMEOUT=8
ENTRYPOINT ["/gorun"]
CMD ["/allreduce"]
