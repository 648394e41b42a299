//! When the certificates of clusters end, as far as this conductor has looked at them lately.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// A cluster that was not looked at for so long is another conductor's to tell, or is gone.
const FORGOTTEN: Duration = Duration::from_secs(3600);
/// How long before its end a certificate is spoken of, in seconds, and how often.
const SOON: i64 = 30 * 86_400;
const AGAIN: Duration = Duration::from_secs(86_400);
/// The soonest of all is looked for at most so often: looks at clusters are many.
const COUNTED: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(super) struct Expiries {
    of_clusters: HashMap<String, Seen>,
    /// The soonest, and when it was looked for.
    soonest: Option<(Option<i64>, Instant)>,
}

#[derive(Debug)]
struct Seen {
    /// Seconds since the epoch.
    ends: i64,
    at: Instant,
    told: Option<Instant>,
}

impl Expiries {
    /// Notes when a cluster's first certificate ends. True when it is soon and was not said within a day.
    pub(super) fn see(&mut self, cluster: &str, ends: i64, now: i64, at: Instant) -> bool {
        let seen = self.of_clusters.entry(cluster.to_owned()).or_insert(Seen { ends, at, told: None });
        (seen.ends, seen.at) = (ends, at);
        let is_news = ends - now < SOON && seen.told.is_none_or(|told| at.duration_since(told) >= AGAIN);
        if is_news {
            seen.told = Some(at);
        }
        is_news
    }

    /// The soonest end of all.
    pub(super) fn soonest(&mut self, at: Instant) -> Option<i64> {
        if let Some((soonest, counted)) = self.soonest
            && at.duration_since(counted) < COUNTED
        {
            return soonest;
        }
        self.of_clusters.retain(|_, seen| at.duration_since(seen.at) < FORGOTTEN);
        let soonest = self.of_clusters.values().map(|seen| seen.ends).min();
        self.soonest = Some((soonest, at));
        soonest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soonest_end_of_the_clusters_seen_lately_is_told_and_each_spoken_of_once_a_day() {
        let (start, day) = (Instant::now(), 86_400);
        let mut expiries = Expiries::default();
        assert_eq!(expiries.soonest(start), None);
        assert!(!expiries.see("far", 100 * day, 0, start));
        assert!(expiries.see("near", 10 * day, 0, start), "it ends soon");
        assert!(expiries.see("past", -day, 0, start), "it has ended");
        assert!(!expiries.see("near", 10 * day, 0, start + Duration::from_secs(60)), "it was said");
        assert_eq!(expiries.soonest(start), None, "it was looked for a moment ago");
        let later = start + COUNTED;
        assert_eq!(expiries.soonest(later), Some(-day));
        assert!(expiries.see("near", 9 * day, day, start + AGAIN), "a day has passed");
        assert_eq!(expiries.soonest(start + AGAIN), Some(9 * day), "the others were not looked at any more");
    }
}
