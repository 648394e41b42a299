//! What the programs have in common: configuration, logging, stopping, wiring.
//!
//! Only this crate reads files and the environment, and only this crate knows which implementation stands behind which
//! seam. It must hold no behaviour of the service itself: a rule about clusters belongs to `model`, `api` or `conductor`.

pub mod config;
pub mod program;
pub mod shutdown;
pub mod standalone;
pub mod telemetry;
pub mod wire;
