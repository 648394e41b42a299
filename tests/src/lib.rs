//! What the tests of the whole product stand on: worlds of their own, real processes, real HTTP.
//!
//! Everything is driven from outside, as users and operators do it: binaries, configuration files, the REST API. Only what a
//! user cannot see (rows, the pid behind a lease, what is left in the cloud) is looked at from inside, and nothing is changed
//! there, but for rows that stand for what upstream left behind (the replay). The demo and the benchmark use the same parts.

pub mod agreement;
pub mod binaries;
pub mod cells;
pub mod chaos;
pub mod client;
pub mod collector;
pub mod commits;
pub mod config;
pub mod database;
pub mod doors;
pub mod dump;
pub mod events;
pub mod front;
pub mod heard;
pub mod heat_notifier;
pub mod kubeconfig;
pub mod kubernetes;
pub mod load;
pub mod login;
pub mod management;
pub mod metrics;
pub mod nodes;
pub mod notifications;
pub mod openmetrics;
pub mod pki;
pub mod process;
pub mod raw;
pub mod relay;
pub mod secrets;
pub mod servers;
pub mod statements;
pub mod told;
pub mod upstream;
pub mod wait;
pub mod world;
