//! How to speak to the cloud: Keystone, Heat, Nova, Neutron, Glance, Octavia, Cinder and Barbican over HTTP.
//!
//! A [`Cloud`] is where and how to connect; a [`Session`] is a [`Credential`] used there; the clients
//! ([`Heat`] and the others) are thin views of a session. Every request of every client leaves through one
//! door (`transport.rs`), where it is timed, given its deadline and its error is made.
//!
//! Two clients are of another world: [`Management`] speaks to the Kubernetes API of a Cluster API management cluster, and [`Helm`] runs
//! the `helm` program there.
//!
//! This crate must never know a database row, read a file or the environment, or print a token, a password
//! or a body. The existing OpenStack crates were not taken because none has both Heat and trusts.

mod barbican;
mod cinder;
mod cloud;
mod credential;
mod error;
pub mod exchange;
mod glance;
mod heat;
mod helm;
mod json;
mod keystone;
mod kubeconfig;
mod kubernetes;
mod management;
mod message;
mod neutron;
mod nova;
mod observe;
mod octavia;
mod page;
mod quota;
mod request;
mod service;
mod session;
mod token;
mod transport;

pub use crate::barbican::{Barbican, Container, Part, Payload, SecretFacts};
pub use crate::cinder::{Cinder, Volume, VolumeLimits, VolumeType};
pub use crate::cloud::{Cloud, CloudOptions, TlsTrust};
pub use crate::credential::{Credential, Scope, UserRef};
pub use crate::error::{CloudError, ErrorKind};
pub use crate::glance::{Glance, Image};
pub use crate::heat::{Blueprint, HIDDEN, Heat, Link, NewStack, Signal, Stack, StackFilter, StackResource, StackUpdate};
pub use crate::helm::{Helm, HelmOptions, HelmRun, HelmUntil, LastRelease, warden};
pub use crate::keystone::{ApplicationCredential, Domain, Keystone, NewTrust, Project, Role, Trust, User};
pub use crate::kubeconfig::{Kubeconfig, KubeconfigError};
pub use crate::kubernetes::{Kubernetes, KubernetesError, KubernetesOptions, Networks, Node, Ready};
pub use crate::management::{Change, KubeKind, Management, WatchLimits, Watched};
pub use crate::neutron::{FixedIp, FloatingIp, Network, NetworkLimits, Neutron, NeutronFilter, Port, SecurityGroup, Subnet};
pub use crate::nova::{ComputeLimits, Flavor, Keypair, Nova, Server};
pub use crate::observe::{Call, Ending, HUNG, Observer, Tracing, Watchers};
pub use crate::octavia::{LoadBalancer, LoadBalancerFilter, Octavia, PoolMember};
pub use crate::quota::Limit;
pub use crate::service::{Interface, Service};
pub use crate::session::Session;
pub use crate::token::{CatalogEndpoint, CatalogEntry, TokenInfo};
