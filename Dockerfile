# Built in one stage, run in another: the image holds the binary, certificates and nothing to build with.
FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY Cargo.toml Cargo.lock ./
# Dependencies first: a change of our own code does not build them again.
RUN mkdir -p src benches && echo 'fn main() {}' > src/main.rs && touch src/lib.rs \
    && sed -i '/^\[\[bench\]\]/,/^$/d' Cargo.toml \
    && cargo build --release --locked && rm -rf src
COPY Cargo.toml Cargo.lock ./
COPY src ./src
COPY migrations ./migrations
COPY benches ./benches
RUN touch src/main.rs src/lib.rs && cargo build --release --locked --bin tollway

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/tollway --create-home tollway
COPY --from=build /src/target/release/tollway /usr/local/bin/tollway
USER tollway
WORKDIR /var/lib/tollway
# Data and journal; give every replica a volume of its own.
VOLUME /var/lib/tollway
ENV TOLLWAY_SERVER_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["tollway", "healthcheck"]
# tini passes SIGTERM on; open streams end within server.grace_period.
ENTRYPOINT ["tini", "--", "tollway"]
CMD ["serve"]
