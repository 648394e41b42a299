//! What an API server asks for when it has too much to do: `Retry-After` of an answer 429 or 503. One that asks one caller for patience is
//! not asked by the others of this client either, until that time is over.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use tokio::time::Instant;

use super::{Management, SERVICE};
use crate::error::{CloudError, Sent};

/// A server that asks for more is asked again after this.
const LONGEST: Duration = Duration::from_secs(60);

/// Until when nothing is asked.
#[derive(Debug, Default)]
pub(super) struct Patience(Mutex<Option<Instant>>);

impl Patience {
    fn left(&self) -> Option<Duration> {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until?.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    fn extend(&self, by: Duration) {
        let until = Instant::now() + by;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(known.map_or(until, |known| known.max(until)));
    }
}

/// Seconds, as API servers write it; a date is not understood and says nothing.
fn asked_for(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST)).filter(|wait| !wait.is_zero())
}

impl Management {
    /// Waits as long as the server has asked for. Whoever would have to wait longer than a call may take is told at once.
    pub(super) async fn patience(&self, operation: &'static str) -> Result<(), CloudError> {
        while let Some(left) = self.0.patience.left() {
            if left >= self.0.timeout {
                let words = format!("the server has asked for {} s without requests", left.as_secs());
                return Err(CloudError::unreachable(SERVICE, operation, Sent::No, &words));
            }
            tokio::time::sleep(left).await;
        }
        Ok(())
    }

    /// Notes what an answer asks for.
    pub(super) fn heed(&self, response: &reqwest::Response) {
        if let Some(wait) = asked_for(response.status(), response.headers()) {
            tracing::info!(server = self.server(), seconds = wait.as_secs(), "The management cluster has too much to do and asks to wait");
            self.0.patience.extend(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn only_a_server_that_has_too_much_to_do_is_heeded_and_not_for_ever() {
        let of = |status, text: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            asked_for(status, &headers)
        };
        assert_eq!(of(StatusCode::TOO_MANY_REQUESTS, "2"), Some(Duration::from_secs(2)));
        assert_eq!(of(StatusCode::SERVICE_UNAVAILABLE, " 7 "), Some(Duration::from_secs(7)));
        assert_eq!(of(StatusCode::TOO_MANY_REQUESTS, "86400"), Some(LONGEST));
        for (status, text) in [
            (StatusCode::TOO_MANY_REQUESTS, "0"),
            (StatusCode::TOO_MANY_REQUESTS, "Wed, 21 Oct 2026 07:28:00 GMT"),
            (StatusCode::INTERNAL_SERVER_ERROR, "2"),
            (StatusCode::OK, "2"),
        ] {
            assert_eq!(of(status, text), None, "{status} {text}");
        }
        assert_eq!(asked_for(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_wish_takes_nothing_from_a_longer_one() {
        let patience = Patience::default();
        assert_eq!(patience.left(), None);
        patience.extend(Duration::from_secs(5));
        patience.extend(Duration::from_secs(1));
        assert_eq!(patience.left(), Some(Duration::from_secs(5)));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(patience.left(), None);
    }
}
