//! Lists, page by page.

use reqwest::Method;
use serde_json::Value;
use url::Url;

use super::{JSON, KubeKind, Management, SERVICE, found, unserved};
use crate::error::CloudError;

/// Objects of one page of a list.
const PAGE: &str = "500";
/// Pages of one list at most.
const PAGES: usize = 200;
/// How often one list is begun anew at most.
const ANEW: u32 = 3;
/// Has objects told without anything but their metadata; a server that cannot tells all.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// What is listed.
struct Asked<'a> {
    operation: &'static str,
    kind: &'a KubeKind,
    namespace: Option<&'a str>,
    labels: &'a str,
    accept: &'static str,
    /// Objects of one page.
    limit: &'static str,
}

/// Where a list is.
#[derive(Default)]
struct Place {
    next: String,
    begun_anew: u32,
}

/// What came of asking for a page.
enum Page {
    Objects(Vec<Value>),
    /// What it was to go on from is not kept any more: whatever came before is void.
    Anew,
    /// The cluster has no such kind.
    Unserved,
}

impl Management {
    /// As [`Self::list`], of a kind that must be there.
    ///
    /// # Errors
    /// Also where the cluster has no such kind: that says nothing of its objects.
    pub async fn list_served(
        &self,
        operation: &'static str,
        kind: &KubeKind,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<Value>, CloudError> {
        self.list(operation, kind, namespace, labels).await?.ok_or_else(|| unserved(operation, kind))
    }

    /// The objects that bear these labels (`a=b,c=d`; empty: all); none when the cluster has no such kind.
    pub async fn list(
        &self,
        operation: &'static str,
        kind: &KubeKind,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Option<Vec<Value>>, CloudError> {
        let asked = Asked { operation, kind, namespace, labels, accept: JSON, limit: PAGE };
        let (mut items, mut place) = (Vec::new(), Place::default());
        for _ in 0..PAGES {
            match self.page(&asked, &mut place).await? {
                Page::Objects(found) => items.extend(found),
                Page::Anew => {
                    items.clear();
                    continue;
                }
                Page::Unserved => return Ok(None),
            }
            if place.next.is_empty() {
                return Ok(Some(items));
            }
        }
        Err(asked.endless())
    }

    /// Whether any object bears these labels. Nothing but the metadata of one is asked for: a record of helm is long, and a secret is to be
    /// read by whoever uses it.
    ///
    /// # Errors
    /// Also where the cluster has no such kind: that says nothing of its objects.
    pub async fn has_any(
        &self,
        operation: &'static str,
        kind: &KubeKind,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<bool, CloudError> {
        let asked = Asked { operation, kind, namespace, labels, accept: METADATA, limit: "1" };
        let mut place = Place::default();
        for _ in 0..PAGES {
            match self.page(&asked, &mut place).await? {
                Page::Objects(found) if !found.is_empty() => return Ok(true),
                // A page may have none, and yet not be the last.
                Page::Objects(_) if place.next.is_empty() => return Ok(false),
                Page::Objects(_) | Page::Anew => {}
                Page::Unserved => return Err(unserved(operation, kind)),
            }
        }
        Err(asked.endless())
    }

    async fn page(&self, asked: &Asked<'_>, place: &mut Place) -> Result<Page, CloudError> {
        let url = asked.url(self, &place.next)?;
        let page = match self.json_as(asked.accept, asked.operation, Method::GET, url, None).await {
            Err(error) if error.is_expired() && !place.next.is_empty() && place.begun_anew < ANEW => {
                place.begun_anew += 1;
                place.next.clear();
                return Ok(Page::Anew);
            }
            page => found(page)?,
        };
        let Some(mut page) = page else { return Ok(Page::Unserved) };
        // Present and empty for custom kinds, absent for those of the core.
        place.next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        Ok(Page::Objects(match page.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        }))
    }
}

impl Asked<'_> {
    fn url(&self, management: &Management, next: &str) -> Result<Url, CloudError> {
        let mut url = management.url(self.operation, self.kind, self.namespace, None)?;
        url.query_pairs_mut().append_pair("limit", self.limit);
        if !self.labels.is_empty() {
            url.query_pairs_mut().append_pair("labelSelector", self.labels);
        }
        if !next.is_empty() {
            url.query_pairs_mut().append_pair("continue", next);
        }
        Ok(url)
    }

    fn endless(&self) -> CloudError {
        CloudError::malformed(SERVICE, self.operation, 200, None, &format!("the list of {} does not end", self.kind.plural))
    }
}
