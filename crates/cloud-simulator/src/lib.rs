//! A simulated OpenStack that speaks real HTTP on loopback, for the embedded mode and for tests.
//!
//! It keeps the rules of the real services that our clients can meet (tokens expire, trusts have owners, stacks take
//! time and leave things behind) and nothing else. It must never know our product: no crate of ours is imported here,
//! so what passes against it passed over the wire. It is no place for a real cloud's data: everything lives in memory and
//! is gone when the [`Simulator`] is dropped.

mod barbican;
mod catalog;
mod cinder;
mod clock;
mod cloud;
mod fault;
mod gate;
mod glance;
mod heat;
mod http;
mod in_process;
mod keystone;
mod management;
mod neutron;
mod nova;
mod octavia;
mod server;
mod service;
mod simulator;
mod state;
mod token;

pub use crate::cloud::{Cloud, NewLoadBalancer, StackBrief, StackCopy, StackView, TokenScope};
pub use crate::fault::{Fault, How};
pub use crate::heat::Mishap;
pub use crate::in_process::{Answered, Asked, InProcess};
pub use crate::keystone::SERVICE_PASSWORD;
pub use crate::management::{ManagementCluster, ManagementOptions, Trouble};
pub use crate::simulator::{Options, Simulator};
