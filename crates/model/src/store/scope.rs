//! Whose rows a query sees.

use crate::id::{ProjectId, UserId};

/// The visible set of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every project's rows (an admin, or the conductor).
    All,
    /// One project's rows.
    Project(ProjectId),
    /// A caller without a project sees what he made himself (upstream's rule for unscoped tokens).
    User(UserId),
}
