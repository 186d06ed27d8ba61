# Tombolo's image: one static binary on nothing else. Hub and agent are the same image with other arguments.
#   docker build --tag tombolo:dev .
# For another platform: docker buildx build --platform linux/arm64 …

# The version of rust-toolchain.toml, so that no other toolchain is fetched.
FROM rust:1.95.0-alpine AS build
# Asked for by name, it is taken as it is: that file also asks for clippy and rustfmt, which the image lacks and the build does not need.
ENV RUSTUP_TOOLCHAIN=1.95.0
# Alpine's own target is musl, and linked statically. The compiler is for ring and mimalloc, which are in C.
RUN apk add --no-cache build-base ca-certificates
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package tombolo --bin tombolo \
    && install -D -s -m 0555 target/release/tombolo /image/usr/local/bin/tombolo \
    # For members whose certificates are of a public authority.
    && install -D -m 0444 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt

FROM scratch
COPY --from=build /image /
# The user that distroless images call nonroot. It has no name, no home and no shell here.
USER 65532:65532
# webhook, and /livez, /readyz, /metrics
EXPOSE 9443 8081
ENTRYPOINT ["/usr/local/bin/tombolo"]
