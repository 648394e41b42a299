//! Events: what happened to a cluster, in order.

mod feed;
pub mod list;
mod stream;

pub use feed::Feed;
