//! Calls that a test holds, and lets go.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Where calls are held.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    held: AtomicUsize,
    opened: Notify,
}

impl Gate {
    /// Holds a call until the test lets go, or its caller is gone.
    pub(crate) async fn hold(&self) {
        struct Held<'a>(&'a AtomicUsize);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let released = self.opened.notified();
        tokio::pin!(released);
        // Before it is counted: who sees the count and lets go must reach it.
        released.as_mut().enable();
        self.held.fetch_add(1, Ordering::SeqCst);
        let _held = Held(&self.held);
        released.await;
    }

    /// How many calls are held.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Lets go of every call that is held.
    pub(crate) fn let_go(&self) {
        self.opened.notify_waiters();
    }
}
