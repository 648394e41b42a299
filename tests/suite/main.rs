//! The product as a whole, in both mixes, through the same tests: real processes, real HTTP, real servers.
//!
//! Each test owns its world (`tests::world`) and ends by having it checked, so a test says only what is particular to it.

mod adoption;
mod bad_input;
mod certificates;
mod changes;
mod chaos;
mod clean_delete;
mod cluster_api;
mod crash_matrix;
mod credentials;
mod deploy;
mod events;
mod exits;
mod faults;
mod fleet;
mod health;
mod idempotency;
mod identity;
mod isolation;
mod keepers;
mod labels;
mod lifecycle;
mod lists;
mod manage;
mod metrics;
mod nodegroups;
mod notifications;
mod operations;
mod outages;
mod policy;
mod quotas;
mod refusals;
mod reload;
mod replay;
mod resize;
mod rolling;
mod secure;
mod services;
mod takeover;
mod templates;
mod traces;
mod transport;
mod upgrade;
mod weaknesses;
