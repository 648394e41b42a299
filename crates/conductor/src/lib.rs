//! Operation in, cloud and row out: the competing workers.
//!
//! A conductor claims operations by lease and generation, lets a reconciler look at the cloud, decide in a pure function and do one thing
//! that is safe to repeat, and records what it saw under the generation. It knows nothing of HTTP requests; it meets the API only in the
//! operation row. It holds no state that a `kill -9` could lose.

mod certificates;
mod cluster;
mod context;
mod credential_health;
mod credentials;
mod cure;
mod driver;
mod follow;
mod forecast;
mod health;
mod heartbeat;
mod housekeeping;
mod lease;
mod leaving;
mod metrics;
mod nodegroup;
mod notify;
mod operation;
mod outcome;
mod parts;
mod plan;
mod rest;
mod room;
mod scan;
mod settle;
mod stack;
mod sweep;
mod worker;

pub use context::{Conductor, DefaultVolumes, Settings, Timing};
pub use driver::capi_helm::{Capi, CapiSettings, DoorParts, Kinds as CapiKinds, News};
pub use driver::heat::{HeatTemplates, SHIPPED_TEMPLATES, TemplateError};
pub use forecast::Forecaster;
pub use metrics::Metrics;
pub use notify::Notifications;
pub use outcome::fault;
pub use parts::PartEnded;
