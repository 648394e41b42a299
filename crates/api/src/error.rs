//! What can go wrong in a request, and the one table from there to HTTP: no other file names the status of an error.
//!
//! The outside message is written for a tenant and is all that he gets; what lies beneath stays in the source and goes to the log, once,
//! with the request id. A fault of this service says outside only which request id to look for.

use std::fmt::Display;

use model::certificate::keeper::KeeperError;
use model::quota::Resource;
use model::store::StoreError;

use crate::microversion::Refused;

/// Seconds after which a server that is down is worth another request.
const SOON: u64 = 5;

/// Why a request is not answered with what it asked for.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The request breaks a rule; the text names field and rule.
    #[error("{0}")]
    Invalid(String),
    /// Nothing of this name in the caller's sight.
    #[error("{what} {key} could not be found.")]
    NotFound { what: &'static str, key: String },
    /// Something that the request names, rather than addresses, is not there.
    #[error("{0}")]
    Missing(String),
    /// More than one thing of this name.
    #[error("Multiple {what}s exist with same name. Please use the {what} uuid instead.")]
    Ambiguous { what: &'static str },
    /// The state of things does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// It is well formed, and cannot be done with what it comes with.
    #[error("{0}")]
    Unprocessable(String),
    /// No more streams can be kept open.
    #[error("Too many event streams are open. Ask for pages, or try again later.")]
    TooManyStreams,
    /// The policy says no.
    #[error("Policy doesn't allow {0} to be performed.")]
    Policy(&'static str),
    /// Not allowed, for a reason beyond the policy.
    #[error("{0}")]
    Forbidden(String),
    /// The project has as much of something as it may; the text names the limit.
    #[error("Resource limit exceeded: {0}")]
    QuotaReached(String),
    /// A body that is not JSON.
    #[error("Unsupported media type {0}: the body must be application/json.")]
    MediaType(String),
    /// A body whose bytes are no text.
    #[error("The body is not UTF-8.")]
    NotText,
    /// A body larger than any that makes sense.
    #[error("The body is larger than {0} bytes.")]
    TooLarge(usize),
    /// The body did not arrive in time.
    #[error("The body did not arrive within {0} seconds.")]
    TooSlow(u64),
    /// A path with its query longer than any that makes sense.
    #[error("The path and the query are longer than {0} bytes.")]
    TargetTooLong(usize),
    /// Headers larger than any that make sense.
    #[error("The headers are larger than {0} bytes.")]
    HeadTooLarge(usize),
    /// The project asks more often than the operator allows.
    #[error("Too many requests of this project. Try again in {retry_after} seconds.")]
    TooOften { retry_after: u64 },
    /// The request was worked on for longer than the operator allows.
    #[error("The request was not done within {0} seconds. It may take effect all the same.")]
    TooLong(u64),
    /// No such route.
    #[error("")]
    NoRoute,
    /// The route has no such method; holds what it has.
    #[error("")]
    Method { allow: &'static str },
    /// The client accepts nothing that we can make.
    #[error("{0}")]
    NotAcceptable(String),
    /// The microversion cannot be served, or the header not be read.
    #[error(transparent)]
    Version(#[from] Refused),
    /// No token, or one that Keystone does not know (any more).
    #[error("The request you have made requires authentication.")]
    Unauthenticated,
    /// Keystone could not be asked about the token.
    #[error("validate the token: {0}")]
    KeystoneDown(String),
    /// Another OpenStack service failed while the request was checked; the text is for the user.
    #[error("{text}")]
    Cloud { text: String, detail: String },
    /// The database cannot be reached, or made us give way each time.
    #[error("store: {0}")]
    DatabaseDown(StoreError),
    /// A fault of ours.
    #[error("{0}")]
    Internal(String),
}

/// The form of an error body (rest-api.md 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The normal one.
    Normal,
    /// Raised by the framework: texts only for clients that ask for JSON, no microversion headers.
    Framework,
    /// A microversion out of range.
    Microversion,
    /// From the token check.
    Token,
    /// Plain text, when Keystone cannot be asked.
    Text,
}

impl ApiError {
    /// A field that breaks a rule.
    pub fn field(name: &str, rule: impl Display) -> Self {
        Self::Invalid(format!("Invalid input for field/attribute {name}. {rule}"))
    }

    /// A field whose value breaks a rule.
    pub fn value(name: &str, value: impl Display, rule: impl Display) -> Self {
        Self::field(name, format_args!("Value: '{value}'. {rule}"))
    }

    /// A field that must be given.
    pub fn missing_field(name: &str) -> Self {
        Self::field(name, "Mandatory field missing.")
    }

    /// THE table: status and form of every error.
    pub fn http(&self) -> (u16, Form) {
        match self {
            Self::Invalid(_) => (400, Form::Normal),
            Self::NotFound { .. } | Self::Missing(_) => (404, Form::Normal),
            Self::Ambiguous { .. } | Self::Conflict(_) => (409, Form::Normal),
            Self::Policy(_) | Self::Forbidden(_) | Self::QuotaReached(_) => (403, Form::Normal),
            Self::Unprocessable(_) => (422, Form::Normal),
            Self::TooManyStreams => (503, Form::Normal),
            Self::MediaType(_) => (415, Form::Normal),
            Self::TooLarge(_) => (413, Form::Normal),
            Self::TooSlow(_) => (408, Form::Normal),
            Self::TargetTooLong(_) => (414, Form::Normal),
            Self::HeadTooLarge(_) => (431, Form::Normal),
            Self::TooOften { .. } => (429, Form::Normal),
            Self::NotText => (400, Form::Framework),
            Self::NoRoute => (404, Form::Framework),
            Self::Method { .. } => (405, Form::Framework),
            Self::NotAcceptable(_) | Self::Version(Refused::Malformed(_)) => (406, Form::Framework),
            Self::Version(Refused::OutOfRange { .. }) => (406, Form::Microversion),
            Self::Unauthenticated => (401, Form::Token),
            Self::KeystoneDown(_) => (503, Form::Text),
            Self::Cloud { .. } | Self::DatabaseDown(_) | Self::TooLong(_) => (503, Form::Normal),
            Self::Internal(_) => (500, Form::Normal),
        }
    }

    /// Whether an operator should hear of it.
    pub fn is_fault(&self) -> bool {
        self.http().0 >= 500
    }

    /// After how many seconds it may go better.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::TooOften { retry_after } => Some(*retry_after),
            Self::KeystoneDown(_) | Self::DatabaseDown(_) => Some(SOON),
            _ => None,
        }
    }

    /// What the client reads.
    pub fn outside(&self, request_id: &str) -> String {
        match self {
            Self::DatabaseDown(_) => {
                format!("The service cannot reach its database. Try again later or report request id {request_id} to the operator.")
            }
            Self::Internal(_) => format!("The request failed inside the service. Report request id {request_id} to the operator."),
            Self::KeystoneDown(_) => "The Keystone service is temporarily unavailable.".into(),
            other => other.to_string(),
        }
    }

    /// What the log gets.
    pub fn inside(&self) -> String {
        match self {
            Self::Cloud { detail, .. } => detail.clone(),
            other => other.to_string(),
        }
    }
}

impl From<KeeperError> for ApiError {
    fn from(error: KeeperError) -> Self {
        let detail = error.to_string();
        match error {
            KeeperError::NotFound(_) => Self::Missing("The cluster's certificates are not there.".into()),
            KeeperError::Unavailable { .. } => {
                Self::Cloud { text: "The certificates of the cluster cannot be read now. Try again.".into(), detail }
            }
            KeeperError::Refused { .. } | KeeperError::NoKeeper { .. } | KeeperError::Sealed(_) => Self::Internal(detail),
            KeeperError::Store(error) => match &*error {
                StoreError::Busy(reason) => Self::DatabaseDown(StoreError::Busy(reason.clone())),
                StoreError::Unavailable(reason) => Self::DatabaseDown(StoreError::Unavailable(reason.clone())),
                _ => Self::Internal(detail),
            },
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { what, key } => Self::NotFound { what: title(what), key },
            StoreError::Ambiguous { what, .. } => Self::Ambiguous { what },
            StoreError::Duplicate { what } => Self::Conflict(format!("There is {what} already.")),
            StoreError::Stale { what } => Self::Conflict(format!("The {what} was changed by another request. Try again.")),
            StoreError::Refused(refused) => Self::Conflict(format!("Not possible now: a {refused}.")),
            StoreError::NoExit(reason) => Self::Conflict(format!("Not possible now: {reason}.")),
            StoreError::InUse { what, key } => Self::Invalid(format!("{} {key} is referenced by one or multiple clusters.", title(what))),
            StoreError::BadSortKey { key, .. } => Self::Invalid(format!("The sort_key value \"{key}\" is an invalid field for sorting")),
            StoreError::QuotaReached { resource, limit, used, asked } => Self::QuotaReached(quota_reached(resource, limit, used, asked)),
            StoreError::Busy(_) | StoreError::Unavailable(_) => Self::DatabaseDown(error),
            StoreError::Schema(_) | StoreError::Config(_) | StoreError::Database(_) | StoreError::Sealed(_) => {
                Self::Internal(error.to_string())
            }
        }
    }
}

/// The words about a quota; those about clusters are upstream's.
fn quota_reached(resource: Resource, limit: i64, used: i64, asked: i64) -> String {
    match resource {
        Resource::Cluster => {
            format!("You have reached the maximum clusters per project, {limit}. You may delete a cluster to make room for a new one.")
        }
        Resource::Node => format!(
            "You have reached the maximum nodes per project, {limit}. The project's clusters have {used} nodes, masters and those that are \
             yet to go included, and the request asks for {asked} more."
        ),
    }
}

/// The store's nouns as upstream's messages spell them.
fn title(what: &'static str) -> &'static str {
    match what {
        "cluster" => "Cluster",
        "cluster template" => "ClusterTemplate",
        "nodegroup" => "Nodegroup",
        "quota" => "Quota",
        "operation" => "Operation",
        "federation" => "Federation",
        other => other,
    }
}

/// The reason phrase that framework errors carry as title.
pub fn reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        _ => "",
    }
}
