//! A client's end of a stream of server-sent events.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use reqwest::Response;
use serde_json::Value;

use crate::heard::Heard;

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    pub id: i64,
    pub kind: String,
    pub data: Value,
}

/// The stream.
pub struct Events {
    response: Response,
    unread: String,
    come: VecDeque<Event>,
    /// How many comments have come.
    comments: usize,
    heard: Option<Arc<Heard>>,
}

impl Events {
    /// Of an answer that goes on; what comes is kept there, too.
    pub fn new(response: Response, heard: Option<Arc<Heard>>) -> Self {
        Self { response, unread: String::new(), come: VecDeque::new(), comments: 0, heard }
    }

    /// The next event; none when the other side has ended the stream.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.come.pop_front() {
                return Ok(Some(event));
            }
            if !self.read_on().await? {
                return Ok(None);
            }
        }
    }

    /// Waits for the next comment.
    pub async fn comment(&mut self) -> Result<()> {
        let before = self.comments;
        while self.comments == before {
            ensure!(self.read_on().await?, "the stream ended");
        }
        Ok(())
    }

    /// Takes what comes next; false at the end.
    async fn read_on(&mut self) -> Result<bool> {
        let Some(chunk) = self.response.chunk().await.context("read the stream")? else {
            ensure!(self.unread.is_empty(), "the stream ended within an event: {}", self.unread);
            return Ok(false);
        };
        self.unread += std::str::from_utf8(&chunk).context("the stream is text")?;
        while let Some((frame, rest)) = self.unread.split_once("\n\n") {
            if let Some(heard) = &self.heard {
                heard.keep("a stream of events", frame);
            }
            let event = read(frame)?;
            self.comments += usize::from(frame.starts_with(':'));
            self.unread = rest.to_owned();
            self.come.extend(event);
        }
        Ok(true)
    }
}

/// A frame; none for comments and advice.
fn read(frame: &str) -> Result<Option<Event>> {
    let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let Some(data) = field("data") else { return Ok(None) };
    let id = field("id").context("an event without id")?.parse().context("the id of an event")?;
    let data: Value = serde_json::from_str(data).context("the data of an event")?;
    ensure!(data["id"] == id && data["kind"] == field("event").unwrap_or_default(), "{frame}");
    Ok(Some(Event { id, kind: field("event").unwrap_or_default().to_owned(), data }))
}
