//! Quotas.

pub mod create;
pub mod delete;
pub mod list;
pub mod show;
pub mod update;

use model::quota::Resource;
use model::store::quota;

use crate::error::ApiError;

/// The resource that a path names, to the letter.
fn resource(project: &str, word: &str) -> Result<Resource, ApiError> {
    Resource::parse(word).ok_or_else(|| ApiError::NotFound { what: "Quota", key: quota::key(project, word) })
}
