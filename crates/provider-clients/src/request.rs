//! A request as a value: what a client wants, before it has a token, an endpoint or a deadline.

use reqwest::Method;
use secrecy::SecretString;
use serde_json::Value;
use url::Url;

use crate::error::CloudError;
use crate::service::Service;

/// One request to one service, relative to its endpoint.
pub(crate) struct Request {
    pub(crate) service: Service,
    pub(crate) operation: &'static str,
    pub(crate) method: Method,
    segments: Vec<String>,
    query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Value>,
    /// Sent as `X-Subject-Token`.
    pub(crate) subject: Option<SecretString>,
    /// The media type asked for.
    pub(crate) accept: &'static str,
    /// The service's microversion that is asked for, as `OpenStack-API-Version` names it; none: its first.
    pub(crate) microversion: Option<&'static str>,
    /// Changes nothing in the cloud, so it may be sent again.
    pub(crate) repeatable: bool,
    /// What the request carries and no error text may show.
    pub(crate) secrets: Vec<SecretString>,
    /// Of Keystone: it is asked at the configured interface of the catalogue, where there is one, and not where we log in.
    pub(crate) by_catalogue: bool,
}

impl Request {
    pub(crate) fn new<const N: usize>(service: Service, operation: &'static str, method: Method, segments: [&str; N]) -> Self {
        let repeatable = method == Method::GET || method == Method::HEAD;
        let segments = segments.map(str::to_owned).into();
        Self {
            service,
            operation,
            method,
            segments,
            query: vec![],
            body: None,
            subject: None,
            accept: "application/json",
            microversion: None,
            repeatable,
            secrets: vec![],
            by_catalogue: false,
        }
    }

    pub(crate) fn get<const N: usize>(service: Service, operation: &'static str, segments: [&str; N]) -> Self {
        Self::new(service, operation, Method::GET, segments)
    }

    pub(crate) fn post<const N: usize>(service: Service, operation: &'static str, segments: [&str; N], body: Value) -> Self {
        Self { body: Some(body), ..Self::new(service, operation, Method::POST, segments) }
    }

    pub(crate) fn patch<const N: usize>(service: Service, operation: &'static str, segments: [&str; N], body: Value) -> Self {
        Self { body: Some(body), ..Self::new(service, operation, Method::PATCH, segments) }
    }

    pub(crate) fn delete<const N: usize>(service: Service, operation: &'static str, segments: [&str; N]) -> Self {
        Self::new(service, operation, Method::DELETE, segments)
    }

    pub(crate) fn at(self, microversion: &'static str) -> Self {
        Self { microversion: Some(microversion), ..self }
    }

    pub(crate) fn query(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.query.push((key, value.into()));
        self
    }

    /// A query key only when there is a value.
    pub(crate) fn query_if(self, key: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.query(key, value),
            None => self,
        }
    }

    /// Lists of tags go into one key, joined by commas: all of them must match.
    pub(crate) fn tags(self, tags: &[String]) -> Self {
        self.query_if("tags", (!tags.is_empty()).then(|| tags.join(",")))
    }

    pub(crate) fn hide(mut self, secret: &SecretString) -> Self {
        self.secrets.push(secret.clone());
        self
    }

    /// The URL below an endpoint. A name or id that would change the path's shape (empty, `.`, `..`) is refused:
    /// `DELETE /users/` with an empty id must never be sent.
    pub(crate) fn url(&self, endpoint: &Url) -> Result<Url, CloudError> {
        if self.segments.iter().any(|segment| matches!(segment.as_str(), "" | "." | "..")) {
            return Err(self.invalid("a name or id is empty or made of dots only"));
        }
        let mut url = endpoint.clone();
        url.path_segments_mut().map_err(|()| self.invalid("the endpoint cannot take a path"))?.pop_if_empty().extend(&self.segments);
        if !self.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok(url)
    }

    fn invalid(&self, message: &str) -> CloudError {
        CloudError::invalid(self.service, self.operation, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_place_in_the_path() {
        let endpoint = Url::parse("http://h/v3").expect("a URL");
        let get = |name| Request::get(Service::Identity, "user_show", ["users", name]).url(&endpoint);
        assert_eq!(get("a/../b c?d").expect("usable").as_str(), "http://h/v3/users/a%2F..%2Fb%20c%3Fd");
        for name in ["", ".", ".."] {
            assert!(get(name).is_err(), "{name:?}");
        }
    }
}
