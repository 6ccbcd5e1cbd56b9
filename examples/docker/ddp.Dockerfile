# PyTorch's image with gorun as its entry point and examples/ddp as its program.
# From the repository's root: docker build -f examples/docker/ddp.Dockerfile -t gorun-ddp .
ARG GO_IMAGE=golang:1.26-bookworm
ARG BASE_IMAGE=pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY . .
RUN go build -trimpath -ldflags "-s -w" -o /out/gorun ./cmd/gorun

FROM ${BASE_IMAGE}
COPY --from=build /out/gorun /usr/local/bin/gorun
# docker stop kills after 10 s: before that the workers have ended, so that their
# last words and the exit code are kept.
ENV GORUN_SHUTDOWN_TIMEOUT=8
WORKDIR /work
COPY examples/ddp/train.py .
ENTRYPOINT ["gorun"]
CMD ["train.py"]
