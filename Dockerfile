# syntax=docker/dockerfile:1
# `threadfold serve` as a node of a cluster; docs/guide/cluster.md shows how to run it.

FROM rust:1.95-slim-trixie AS build
WORKDIR /source
# The image has a C compiler, for SQLite and zstd.
COPY . .
RUN cargo build --release --locked --package threadfold

FROM debian:13.1-slim
# Certificates verify the database's, and those of model providers.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates=20* \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/threadfold threadfold
COPY --from=build /source/target/release/threadfold /usr/local/bin/threadfold
USER 10001:10001
WORKDIR /var/lib/threadfold
EXPOSE 4127
ENTRYPOINT ["threadfold"]
CMD ["serve", "--bind", "0.0.0.0:4127", "--allow-remote"]
