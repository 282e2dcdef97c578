# Built in one stage, run in another: the image holds the binary, certificates and nothing to build with.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY .cargo ./.cargo
COPY Cargo.toml Cargo.lock ./
COPY benches ./benches
COPY migrations ./migrations
COPY src ./src
# What was compiled and downloaded before is kept outside the layers: a change of our own code builds nothing else.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin tollway && cp target/release/tollway /usr/local/bin/

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 tollway \
    && useradd --uid 10001 --gid 10001 --no-log-init --home-dir /var/lib/tollway --create-home tollway
COPY --from=build /usr/local/bin/tollway /usr/local/bin/
# By number: Kubernetes cannot tell that a name is not root.
USER 10001:10001
WORKDIR /var/lib/tollway
# Data and journal; give every replica a volume of its own.
VOLUME /var/lib/tollway
ENV TOLLWAY_SERVER_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["tollway", "healthcheck"]
# tini passes SIGTERM on; open streams end within server.grace_period.
ENTRYPOINT ["tini", "--", "tollway"]
CMD ["serve"]
