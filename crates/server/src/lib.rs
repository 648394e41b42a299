//! What the programs have in common: configuration, logging, stopping, wiring.
//!
//! Only this crate reads files and the environment, and only this crate knows which implementation stands behind which
//! seam. It must hold no behaviour of the service itself: a rule about clusters belongs to `model`, `api` or `conductor`.

pub mod adoption;
pub mod config;
pub mod kolla;
pub mod metrics;
pub mod program;
pub mod sealing;
pub mod shutdown;
pub mod standalone;
pub mod telemetry;
pub mod upgrade_check;
pub mod wire;

/// Gives memory back after a long list; what glibc's arenas grow to they keep. Its settings are in `.cargo/config.toml`, where they are built in.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
