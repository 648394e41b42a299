//! The one error of this crate.
//!
//! It keeps who was asked for what, the HTTP status, the cloud's own request id and the cloud's own words, and
//! knows two things that callers decide by: whether trying again may help, and whether what was asked for may be
//! there although no answer says so. It never holds a body, a token or a password.

use std::fmt;

use crate::service::{Interface, Service};

/// What went wrong, without the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No answer: no connection, or it was lost, or time ran out.
    Unreachable,
    /// The service answered with an error status.
    Refused,
    /// The service answered something we cannot read.
    Malformed,
    /// The catalogue has no endpoint of the service for this region and interface.
    NoEndpoint,
    /// Keystone gave no token for the credential (or does not know the token we were handed).
    Auth,
    /// The request was wrong before it was sent: options or an identifier that cannot be used.
    Invalid,
}

/// A failed call to the cloud.
#[derive(Clone, thiserror::Error)]
#[error("{}", self.text())]
pub struct CloudError(Box<Details>);

#[derive(Clone)]
struct Details {
    kind: ErrorKind,
    service: Service,
    operation: &'static str,
    status: Option<u16>,
    request_id: Option<String>,
    message: String,
    retry_may_help: bool,
    may_have_made: bool,
}

/// How far a request without an answer had come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    No,
    Perhaps,
}

impl CloudError {
    /// Which kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The service that was asked.
    pub fn service(&self) -> Service {
        self.0.service
    }

    /// What it was asked for, for example `stack_create`.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The HTTP status of its answer, if it answered with one (a program has none).
    pub fn status(&self) -> Option<u16> {
        self.0.status.filter(|_| self.0.service != Service::Helm)
    }

    /// The service's own id of the request, for its logs.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// The service's own words, at most 1000 characters.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The thing asked for is not there. A trust or user missing at login is no "not found" (see [`Self::is_unauthorized`]):
    /// it says nothing about the thing that was asked for.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::Refused && self.0.status == Some(404)
    }

    /// The service says that the request does not fit the present state.
    pub fn is_conflict(&self) -> bool {
        self.0.kind == ErrorKind::Refused && self.0.status == Some(409)
    }

    /// The version from which something was asked to go on is not kept any more.
    pub fn is_expired(&self) -> bool {
        self.0.kind == ErrorKind::Refused && self.0.status == Some(410)
    }

    /// The credential is not (or no longer) accepted.
    pub fn is_unauthorized(&self) -> bool {
        self.0.kind == ErrorKind::Auth || self.0.status == Some(401)
    }

    /// The same request may succeed later: no connection, no time, 408, 429 or 5xx.
    pub fn retry_may_help(&self) -> bool {
        self.0.retry_may_help
    }

    /// What the request asked for may be there, or may yet come to be: it was sent, and the answer was lost, late, unreadable or an error that
    /// a server or proxy gives when it broke in the middle (408, 5xx); or something of that name is there already (409), which may be what an
    /// earlier request of ours has made whose answer was lost. Whoever announced a thing keeps it announced then, and looks for it.
    ///
    /// This is the only place that decides it.
    pub fn may_have_made(&self) -> bool {
        self.0.may_have_made
    }

    /// Looking again and repeating the step may mend it: the same request may succeed later, or has been carried out, or something else is
    /// in its way, or what answered was not the service.
    pub fn repeating_may_mend(&self) -> bool {
        self.retry_may_help() || self.may_have_made() || self.is_conflict() || self.0.kind == ErrorKind::Malformed
    }

    pub(crate) fn unreachable(service: Service, operation: &'static str, sent: Sent, message: &str) -> Self {
        Self(Box::new(Details {
            retry_may_help: true,
            may_have_made: sent == Sent::Perhaps,
            ..Details::new(ErrorKind::Unreachable, service, operation, message)
        }))
    }

    pub(crate) fn refused(service: Service, operation: &'static str, status: u16, request_id: Option<String>, message: &str) -> Self {
        Self(Box::new(Details {
            status: Some(status),
            request_id,
            // 408: a server or proxy that did not get the request in time, for we, the network or it stood still.
            retry_may_help: matches!(status, 408 | 429) || status >= 500,
            may_have_made: matches!(status, 408 | 409) || status >= 500,
            ..Details::new(ErrorKind::Refused, service, operation, message)
        }))
    }

    pub(crate) fn malformed(service: Service, operation: &'static str, status: u16, request_id: Option<String>, message: &str) -> Self {
        Self(Box::new(Details {
            status: Some(status),
            request_id,
            may_have_made: true,
            ..Details::new(ErrorKind::Malformed, service, operation, message)
        }))
    }

    pub(crate) fn no_endpoint(service: Service, operation: &'static str, region: Option<&str>, interface: Interface) -> Self {
        let place = region.map_or_else(String::new, |region| format!(" in region {region}"));
        let message =
            format!("the catalogue has no {interface} endpoint of type {}{place}", service.types().first().copied().unwrap_or_default());
        Self(Box::new(Details::new(ErrorKind::NoEndpoint, service, operation, &message)))
    }

    pub(crate) fn invalid(service: Service, operation: &'static str, message: &str) -> Self {
        Self(Box::new(Details::new(ErrorKind::Invalid, service, operation, message)))
    }

    /// Marks a failure as one of the login that comes before a request, which was not sent then; a refusal as one of the credential: Keystone's
    /// 4xx.
    pub(crate) fn at_login(mut self) -> Self {
        self.0.may_have_made = false;
        if self.0.kind == ErrorKind::Refused && !self.0.retry_may_help {
            self.0.kind = ErrorKind::Auth;
        }
        self
    }

    fn text(&self) -> String {
        let Details { service, operation, request_id, message, .. } = &*self.0;
        let mut text = format!("{service} {operation}: ");
        if let Some(status) = self.status() {
            text.push_str(&status.to_string());
            if let Some(reason) = reqwest::StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()) {
                text.push(' ');
                text.push_str(reason);
            }
            if !message.is_empty() {
                text.push_str(": ");
            }
        }
        text.push_str(message);
        if let Some(id) = request_id {
            text.push_str(&format!(" ({id})"));
        }
        text
    }
}

impl Details {
    fn new(kind: ErrorKind, service: Service, operation: &'static str, message: &str) -> Self {
        let message = crate::message::cut(message);
        Self { kind, service, operation, status: None, request_id: None, message, retry_may_help: false, may_have_made: false }
    }
}

impl fmt::Debug for CloudError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudError")
            .field("kind", &self.0.kind)
            .field("service", &self.0.service)
            .field("operation", &self.0.operation)
            .field("status", &self.0.status)
            .field("request_id", &self.0.request_id)
            .field("message", &self.0.message)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_is_about_time_or_the_server_may_be_asked_again_and_is_none_of_the_credential() {
        for (status, again) in [(400, false), (403, false), (404, false), (408, true), (429, true), (500, true), (503, true), (504, true)] {
            let error = CloudError::refused(Service::Identity, "token_issue", status, None, "").at_login();
            assert_eq!(error.retry_may_help(), again, "{status}");
            assert_eq!(error.is_unauthorized(), !again, "{status}");
        }
    }

    #[test]
    fn what_was_asked_for_may_be_there_after_a_conflict_and_whatever_a_server_says_that_broke_in_the_middle() {
        let refused = |status: u16| CloudError::refused(Service::Orchestration, "stack_create", status, None, "");
        for status in [408, 409, 500, 501, 502, 503, 504, 507] {
            assert!(refused(status).may_have_made() && refused(status).repeating_may_mend(), "{status}");
        }
        for status in [400, 401, 403, 404, 405, 410, 412, 413, 422, 424, 429] {
            assert!(!refused(status).may_have_made(), "{status}");
        }
        let unreachable = |sent: Sent| CloudError::unreachable(Service::Orchestration, "stack_create", sent, "");
        assert!(unreachable(Sent::Perhaps).may_have_made() && !unreachable(Sent::No).may_have_made());
        assert!(!CloudError::invalid(Service::Orchestration, "stack_create", "").may_have_made());
        assert!(!CloudError::no_endpoint(Service::Orchestration, "stack_create", None, Interface::Public).may_have_made());
        assert!(CloudError::malformed(Service::Orchestration, "stack_create", 201, None, "").may_have_made());
    }

    #[test]
    fn nothing_is_made_by_a_request_for_which_there_was_no_login() {
        let refused = |status: u16| CloudError::refused(Service::Identity, "token_issue", status, None, "").at_login();
        assert!([400, 401, 409, 500, 503].into_iter().all(|status| !refused(status).may_have_made()));
        assert!(!CloudError::unreachable(Service::Identity, "token_issue", Sent::Perhaps, "").at_login().may_have_made());
        let unreadable = CloudError::malformed(Service::Identity, "token_issue", 200, None, "").at_login();
        assert!(!unreadable.may_have_made() && unreadable.repeating_may_mend(), "a page of a proxy is no word of Keystone");
    }
}
