//! HTTP in, row and operation out.
//!
//! A request is authenticated (`identity`), asked whether it may (`policy`), read (`view`), checked (`<noun>/<verb>.rs`, `cloud_checks`) and stored
//! in one transaction together with the operation that will carry it out; then it is answered. This crate never changes anything in the
//! cloud and never waits for a conductor: what happens after the answer is the conductor's, and the two meet in an operation row only.

mod accept;
mod answer;
mod certificate;
mod cloud_checks;
mod cluster;
mod context;
mod credential;
mod discovery;
mod dry_run;
mod error;
mod event;
mod federation;
#[doc(hidden)]
pub mod fuzz;
mod health;
mod idempotency;
mod identity;
mod label;
mod lifecycle;
mod microversion;
mod nodegroup;
mod openapi;
mod operation;
mod policy;
mod quota;
mod routes;
mod server;
mod service;
mod settings;
mod stats;
mod template;
mod view;

pub use dry_run::Foresight;
pub use identity::{ServiceTokens, TokenSharing};
pub use policy::{Policy, PolicyError, PolicyFile, PolicyOptions};
pub use server::cors::Cors;
pub use server::limits::Limits;
pub use server::rate::Rate;
pub use server::{Api, Metrics, serve};
pub use settings::Settings;
