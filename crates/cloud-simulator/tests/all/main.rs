//! The simulated cloud over the wire, as its clients meet it.

mod auth;
mod faults;
mod mishaps;
mod services;
mod stacks;
mod trusts;
mod world;
