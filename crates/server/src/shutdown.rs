//! Stopping: a signal begins it, everything that runs hears of it, and nothing may take longer than the grace.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Waits for SIGTERM or SIGINT and says which one came. SIGHUP, with which oslo.service reloads, is told each time it comes.
pub async fn signalled(mut hung_up: impl FnMut()) -> &'static str {
    const WHY: &str = "the runtime has signals enabled and these may be caught";
    let mut terminate = signal(SignalKind::terminate()).expect(WHY);
    let mut interrupt = signal(SignalKind::interrupt()).expect(WHY);
    let mut hangup = signal(SignalKind::hangup()).expect(WHY);
    loop {
        tokio::select! {
            biased;
            // First: what came before the end is told before it.
            _ = hangup.recv() => hung_up(),
            _ = terminate.recv() => return "SIGTERM",
            _ = interrupt.recv() => return "SIGINT",
        }
    }
}

/// Shared by everything that has to stop. Clones are the same shutdown.
#[derive(Debug, Clone)]
pub struct Shutdown {
    token: CancellationToken,
    grace: Duration,
    deadline: Arc<OnceLock<Instant>>,
}

/// The grace was over before the work was.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not finished {0:?} after the shutdown began")]
pub struct GraceOver(pub Duration);

impl Shutdown {
    /// A shutdown that has not begun and that will give this much time once it has.
    pub fn new(grace: Duration) -> Self {
        Self { token: CancellationToken::new(), grace, deadline: Arc::new(OnceLock::new()) }
    }

    /// Begins the shutdown; only the first call counts.
    pub fn begin(&self) {
        self.deadline.get_or_init(|| Instant::now() + self.grace);
        self.token.cancel();
    }

    /// Begins the shutdown when a signal comes; tells of SIGHUP.
    pub async fn begin_when_signalled(&self, hung_up: impl FnMut()) {
        let signal = signalled(hung_up).await;
        tracing::info!("Stopping after {signal}");
        self.begin();
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until it begins.
    pub async fn begun(&self) {
        self.token.cancelled().await;
    }

    /// The token for those who want one; cancelled when the shutdown begins.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// When everything must be over; none before the shutdown begins.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.get().copied()
    }

    /// Runs work to its end, which must come before the deadline once the shutdown has begun. The work is dropped when
    /// it is late.
    pub async fn finish<T>(&self, work: impl Future<Output = T>) -> Result<T, GraceOver> {
        let late = async {
            self.begun().await;
            // `begin` sets the deadline before it cancels the token.
            if let Some(deadline) = self.deadline() {
                tokio::time::sleep_until(deadline).await;
            }
        };
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = late => Err(GraceOver(self.grace)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn sigterm_stops_and_sighup_does_not() {
        let mut hung_up = 0;
        let mut waiting = Box::pin(signalled(|| hung_up += 1));
        assert!(futures::poll!(&mut waiting).is_pending());
        for signal in ["-HUP", "-TERM"] {
            let sent = Command::new("kill").args([signal, &std::process::id().to_string()]).status().expect("run kill");
            assert!(sent.success());
        }
        let seen = tokio::time::timeout(Duration::from_secs(10), &mut waiting).await;
        assert_eq!(seen, Ok("SIGTERM"));
        drop(waiting);
        assert_eq!(hung_up, 1);
    }

    #[tokio::test]
    async fn work_that_ends_in_time_is_not_disturbed() {
        let shutdown = Shutdown::new(Duration::from_secs(60));
        assert!(!shutdown.has_begun());
        assert_eq!(shutdown.deadline(), None);
        assert_eq!(shutdown.finish(async { 1 }).await, Ok(1));
        let other = shutdown.clone();
        let running = tokio::spawn(async move {
            other
                .finish(async {
                    other.begun().await;
                    2
                })
                .await
        });
        shutdown.begin();
        assert_eq!(running.await.expect("task"), Ok(2));
        assert!(shutdown.deadline().is_some());
    }

    #[tokio::test]
    async fn work_that_is_late_is_dropped_at_the_deadline() {
        let grace = Duration::from_millis(20);
        let shutdown = Shutdown::new(grace);
        shutdown.begin();
        let first = shutdown.deadline();
        shutdown.begin();
        assert_eq!(shutdown.deadline(), first);
        let seen = shutdown.finish(std::future::pending::<()>()).await;
        assert_eq!(seen, Err(GraceOver(grace)));
    }
}
