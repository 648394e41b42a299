//! A watch: the changes of a collection as they happen, from a version on.

use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;
use tracing::Span;

use super::{JSON, KubeKind, Management, SERVICE, unreachable};
use crate::error::{CloudError, Sent};
use crate::message;
use crate::observe::HUNG;

/// The name under which the beginning of a watch is counted.
const OPERATION: &str = "watch";
/// One change at most: etcd holds no object of more than 1.5 MiB.
const LINE: usize = 4 * 1024 * 1024;
/// Of an answer that refuses a watch, so much is read.
const REFUSAL: usize = 64 * 1024;

/// How long a watch may last.
#[derive(Clone, Copy, Debug)]
pub struct WatchLimits {
    /// For so long the server is asked to keep it open.
    pub lasts: Duration,
    /// One that says nothing for so long, neither a change nor a bookmark, is taken for broken.
    pub silence: Duration,
}

/// What a watch said.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object is there now, or is different now, or is gone and was like this.
    Object(Value),
    /// Nothing but how far the watch has come.
    Bookmark,
}

/// A watch under way. Dropping it ends it.
#[derive(Debug)]
pub struct Watched {
    response: reqwest::Response,
    silence: Duration,
    buffer: Vec<u8>,
    /// So much of the buffer is known to hold no end of a line.
    searched: usize,
    version: String,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

impl Management {
    /// As of which version the collection of a kind is in all namespaces, for a watch to go on from; none when the cluster has no such kind.
    ///
    /// # Errors
    /// As of every call.
    pub async fn version(&self, operation: &'static str, kind: &KubeKind, labels: &str) -> Result<Option<String>, CloudError> {
        let mut url = self.url(operation, kind, None, None)?;
        url.query_pairs_mut().append_pair("limit", "1").append_pair("labelSelector", labels);
        let page = super::found(self.json(operation, Method::GET, url, None).await)?;
        Ok(page.map(|page| page["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()))
    }

    /// Begins to watch all objects of a kind that bear these labels, in all namespaces, after a version ([`Self::version`]).
    ///
    /// # Errors
    /// Status 410: the version is too old ([`CloudError::is_expired`]). Others as of every call; it must begin within the time of a call.
    pub async fn watch(&self, kind: &KubeKind, labels: &str, version: &str, limits: WatchLimits) -> Result<Watched, CloudError> {
        let mut url = self.url(OPERATION, kind, None, None)?;
        url.query_pairs_mut()
            .append_pair("watch", "true")
            .append_pair("allowWatchBookmarks", "true")
            .append_pair("resourceVersion", version)
            .append_pair("timeoutSeconds", &limits.lasts.as_secs().max(1).to_string())
            .append_pair("labelSelector", labels);
        let call = self.0.watchers.begin(SERVICE, OPERATION, Span::none(), HUNG);
        let begun = tokio::time::timeout(self.0.timeout, self.begin(url)).await;
        let lost = |_| CloudError::unreachable(SERVICE, OPERATION, Sent::Perhaps, "no answer in time");
        let begun = begun.map_err(lost).and_then(|begun| begun);
        let status = match &begun {
            Ok(response) => Some(response.status().as_u16()),
            Err(error) => error.status(),
        };
        call.ended(status, begun.is_ok());
        Ok(Watched { response: begun?, silence: limits.silence, buffer: Vec::new(), searched: 0, version: version.to_owned() })
    }

    async fn begin(&self, url: url::Url) -> Result<reqwest::Response, CloudError> {
        self.patience(OPERATION).await?;
        let mut response = self.send(JSON, OPERATION, Method::GET, url, None).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        self.heed(&response);
        let mut words = Vec::new();
        while let Ok(Some(part)) = response.chunk().await {
            if words.len() + part.len() > REFUSAL {
                break;
            }
            words.extend_from_slice(&part);
        }
        Err(CloudError::refused(SERVICE, OPERATION, status.as_u16(), None, &message::of_body(&words)))
    }
}

impl Watched {
    /// The version that it has come to: another watch can go on from there.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The next change; none when the server has ended the watch, as it does after a while.
    ///
    /// # Errors
    /// The connection broke or was silent for too long, or the server says what is wrong (410: list anew).
    pub async fn next(&mut self) -> Result<Option<Change>, CloudError> {
        loop {
            if let Some(line) = take_line(&mut self.buffer, &mut self.searched) {
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return self.read(&line).map(Some);
            }
            let lost = |words: &str| CloudError::unreachable(SERVICE, OPERATION, Sent::Perhaps, words);
            let part = tokio::time::timeout(self.silence, self.response.chunk()).await;
            match part.map_err(|_| lost("the watch has said nothing for too long"))?.map_err(|error| unreachable(OPERATION, &error))? {
                Some(part) if self.buffer.len() + part.len() <= LINE => self.buffer.extend_from_slice(&part),
                Some(_) => return Err(CloudError::malformed(SERVICE, OPERATION, 200, None, "a change is too long")),
                None => return Ok(None),
            }
        }
    }

    fn read(&mut self, line: &[u8]) -> Result<Change, CloudError> {
        let malformed = |_| CloudError::malformed(SERVICE, OPERATION, 200, None, "a change is no JSON");
        let Line { kind, object } = serde_json::from_slice(line).map_err(malformed)?;
        if kind == "ERROR" {
            let code = object["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
            return Err(CloudError::refused(SERVICE, OPERATION, code, None, object["message"].as_str().unwrap_or_default()));
        }
        if let Some(version) = object["metadata"]["resourceVersion"].as_str() {
            version.clone_into(&mut self.version);
        }
        Ok(if kind == "BOOKMARK" { Change::Bookmark } else { Change::Object(object) })
    }
}

/// The first whole line of a buffer, taken out of it. What was searched in vain is not searched again.
fn take_line(buffer: &mut Vec<u8>, searched: &mut usize) -> Option<Vec<u8>> {
    match buffer.iter().skip(*searched).position(|byte| *byte == b'\n') {
        Some(at) => {
            let rest = buffer.split_off(*searched + at + 1);
            *searched = 0;
            Some(std::mem::replace(buffer, rest))
        }
        None => {
            *searched = buffer.len();
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_whole_however_they_arrive() {
        let (mut buffer, mut searched, mut taken) = (Vec::new(), 0, Vec::new());
        for part in ["{\"a\"", ":1}", "\n\n{\"b\":2}\n{", "}\n"] {
            buffer.extend_from_slice(part.as_bytes());
            while let Some(line) = take_line(&mut buffer, &mut searched) {
                taken.push(String::from_utf8(line).expect("text"));
            }
        }
        assert_eq!(taken, ["{\"a\":1}\n", "\n", "{\"b\":2}\n", "{}\n"]);
        assert!(buffer.is_empty() && searched == 0);
    }
}
