//! The `tombolo` command.

/// Decisions make many small objects between few that live long, which glibc's allocator pays for with a quarter of all time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> anyhow::Result<std::process::ExitCode> {
    tombolo::cli::Cli::of_arguments().run().await
}
