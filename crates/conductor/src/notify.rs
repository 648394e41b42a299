//! Telling others: what is put into the outbox, and the loop that empties it.
//!
//! A row is written in the transaction of the change it tells of, so that there is exactly one for each change, and removed when the broker
//! has confirmed the message. One conductor at a time sends (`task_lease`), in the order of the rows. A sender remembers what is confirmed and
//! could not be removed; when it dies before it has removed it, or loses the task, these messages are sent again with the same ids. A broker that
//! is away delays; nothing is lost before `longest`.

use std::sync::Arc;
use std::time::Duration;

use model::notification::{Outcome, Priority, Subject, message, publisher_of};
use model::operation::{Claimed, Operation};
use model::queue::amqp::notify::{LONGEST, Notifier, NotifyOptions};
use model::store::notification::Waiting;
use model::store::{Conn, StoreError, notification, task};
use model::time::{millis, now};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::context::Context;

/// The name of the task in `task_lease`.
const TASK: &str = "notifications";
/// How long one conductor has the task without a sign of life.
const LEASE: Duration = Duration::from_secs(20);
/// The lease is renewed when less than this is left of it: more than sending to one topic takes, and the quarter of a lease by which the clock of
/// another conductor may be ahead.
const MARGIN: Duration = Duration::from_secs(12);
const _: () = assert!(MARGIN.as_millis() > LONGEST.as_millis() + LEASE.as_millis() / 4 && MARGIN.as_millis() < LEASE.as_millis());
/// Between two looks into the outbox that nobody asked for.
const LOOK: Duration = Duration::from_secs(2);
/// Longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Rows read, sent and removed at once. A conductor that dies leaves at most so many in the outbox that the broker has already. They are told again,
/// first of all and with the ids that they had: consumers of oslo.messaging drop a message whose id is one of the last sixteen that they have seen.
const BATCH: i64 = 8;
/// Rows looked through at once for those that have waited for too long.
const LOOKED_THROUGH: i64 = 500;

/// Where notifications go, and how long they may wait.
#[derive(Clone)]
pub struct Notifications {
    /// None: they stay in the outbox, for who looks at them there.
    pub bus: Option<NotifyOptions>,
    /// Older ones are dropped, with a line in the log.
    pub longest: Duration,
}

/// Writes the outbox, if anybody is to be told.
pub(crate) struct Outbox {
    is_wanted: bool,
    publisher: String,
    /// Something was written: the loop need not wait.
    written: Notify,
}

impl Outbox {
    pub fn new(is_wanted: bool, host: &str) -> Self {
        Self { is_wanted, publisher: publisher_of(host), written: Notify::new() }
    }

    /// Tells of the first claim of an operation, and before it of the end of those that were begun and gave way to it; in the claim's transaction.
    pub async fn begun(&self, conn: &mut Conn, claimed: &Claimed) -> Result<(), StoreError> {
        match claimed {
            Claimed::Ours(operation, _) if operation.attempt == 1 => {
                if self.is_wanted {
                    notification::tell_superseded(conn, operation, &self.publisher).await?;
                }
                let subject = self.look(conn, operation).await?;
                self.tell(conn, operation, Outcome::Pending, subject).await
            }
            Claimed::Ours(..) | Claimed::NotNow => Ok(()),
        }
    }

    /// The cluster as it is before a transaction that may remove it.
    pub async fn look(&self, conn: &mut Conn, operation: &Operation) -> Result<Option<Subject>, StoreError> {
        if self.is_wanted { notification::subject(conn, &operation.cluster_id()).await } else { Ok(None) }
    }

    /// Tells of the end of an operation; last in the transaction that ends it. `before` is what [`Outbox::look`] saw at its beginning.
    pub async fn ended(&self, conn: &mut Conn, operation: &Operation, outcome: Outcome, before: Option<Subject>) -> Result<(), StoreError> {
        let after = self.look(conn, operation).await?;
        let subject = after.or_else(|| {
            let mut gone = before?;
            // What upstream says of a cluster whose row it is about to remove.
            gone.cluster.status = Some("DELETE_COMPLETE".into());
            Some(gone)
        });
        self.tell(conn, operation, outcome, subject).await
    }

    async fn tell(&self, conn: &mut Conn, operation: &Operation, outcome: Outcome, subject: Option<Subject>) -> Result<(), StoreError> {
        let told = subject.and_then(|subject| message(operation, outcome, &subject, &self.publisher, now()));
        if let Some(message) = told {
            notification::insert(conn, &message).await?;
            // Before the transaction is through, perhaps: then the loop finds the row at its next look.
            self.written.notify_one();
        }
        Ok(())
    }
}

/// Empties the outbox until the conductor stops.
pub(crate) async fn run(cx: Arc<Context>, bus: NotifyOptions, longest: Duration) {
    let mut sender =
        Sender { cx: cx.clone(), bus, longest, notifier: None, attempt: 0, has_failed: false, confirmed: Confirmed::default() };
    loop {
        let pause = match sender.attempt {
            0 => LOOK,
            failed => Duration::from_millis(200).saturating_mul(2u32.saturating_pow(failed.min(8))).min(MAX_PAUSE),
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause.mul_f64(model::random::range(0.5..1.0))) => {}
            () = cx.outbox.written.notified(), if sender.attempt == 0 => {}
            () = cx.stop.cancelled() => break,
        }
        match sender.round().await {
            Ok(()) => sender.attempt = 0,
            Err(reason) => {
                if sender.attempt == 0 {
                    tracing::warn!(reason, "failed to send notifications; they wait");
                }
                sender.attempt = sender.attempt.saturating_add(1);
                cx.metrics.notification_failed();
                if let Some(notifier) = sender.notifier.take() {
                    notifier.close().await;
                }
            }
        }
    }
    sender.stop().await;
}

struct Sender {
    cx: Arc<Context>,
    bus: NotifyOptions,
    longest: Duration,
    notifier: Option<Notifier>,
    attempt: u32,
    /// Whether the broker has failed in the last round that this conductor has sent in: it has taken nothing since, and nothing else kept it from trying.
    has_failed: bool,
    confirmed: Confirmed,
}

/// What the broker has confirmed and the outbox has still, from one round to the next. No number of a row is ever used again.
#[derive(Default)]
struct Confirmed {
    /// Rows that all topics have: they are removed before anything else is sent, and never sent again.
    rows: Vec<i64>,
    /// The row that is under way, and how many of the topics have it, in their order.
    under_way: Option<(i64, usize)>,
}

impl Confirmed {
    /// How many of the topics have a row that is to be sent.
    fn topics(&self, row: i64) -> usize {
        self.under_way.filter(|(id, _)| *id == row).map_or(0, |(_, topics)| topics)
    }
}

impl Sender {
    /// Sends what waits, if nobody else does.
    async fn round(&mut self) -> Result<(), String> {
        // A round that the database fails has tried none.
        let has_failed = std::mem::take(&mut self.has_failed);
        let cx = self.cx.clone();
        let store = &cx.store;
        if store.read(async |conn: &mut Conn| notification::is_empty(conn).await).await.map_err(|e| e.to_string())? {
            // What was remembered is gone with the rest. Another one has had more luck with the broker, perhaps.
            self.confirmed = Confirmed::default();
            return Ok(());
        }
        let Some(mut until) = self.take().await? else {
            // Whoever has it sends what was under way to all topics.
            self.confirmed.under_way = None;
            self.has_failed = has_failed;
            return Ok(());
        };
        let sent = self.empty(&mut until, has_failed).await;
        // Somebody else may have more luck with the broker, or other rows to send.
        let (owner, left) = (&cx.owner, Duration::from_secs(3));
        let leave = store.write(async |conn: &mut Conn| task::leave(conn, TASK, owner).await);
        if !matches!(tokio::time::timeout(left, leave).await, Ok(Ok(()))) {
            tracing::debug!("the task of sending notifications was not given back; its lease will run out");
        }
        sent
    }

    async fn empty(&mut self, until: &mut Instant, has_failed: bool) -> Result<(), String> {
        let cx = self.cx.clone();
        // Before anything is dropped or sent: so none of them is counted as dropped, and there are never more of them than are sent at once.
        self.remove_confirmed().await?;
        // Only where sending has failed. What has waited for a conductor or the database alone, however long, is to be tried first.
        if has_failed {
            self.drop_late().await?;
        }
        loop {
            let rows = cx.store.read(async |conn: &mut Conn| notification::first(conn, BATCH).await).await.map_err(|e| e.to_string())?;
            if rows.is_empty() || cx.stop.is_cancelled() {
                return Ok(());
            }
            let sent = self.send(&rows, until).await;
            self.remove_confirmed().await?;
            if !sent? {
                return Ok(());
            }
        }
    }

    /// Removes what all topics have. What cannot be removed is remembered: it may have been removed all the same, which does no harm.
    async fn remove_confirmed(&mut self) -> Result<(), String> {
        let ids = &self.confirmed.rows;
        if ids.is_empty() {
            return Ok(());
        }
        self.cx.store.write(async |conn: &mut Conn| notification::remove(conn, ids).await).await.map_err(|e| e.to_string())?;
        self.confirmed.rows.clear();
        Ok(())
    }

    /// Drops what has waited for too long, and says so.
    async fn drop_late(&self) -> Result<(), String> {
        let mut dropped = 0;
        let are_dropped = self.drop_counting(&mut dropped).await;
        if dropped > 0 {
            tracing::error!(
                dropped,
                hours = self.longest.as_secs() / 3600,
                "notifications waited for the broker for too long and were dropped"
            );
            self.cx.metrics.notifications_dropped(dropped);
        }
        are_dropped
    }

    async fn drop_counting(&self, dropped: &mut usize) -> Result<(), String> {
        let store = &self.cx.store;
        let oldest = millis(now()).saturating_sub(i64::try_from(self.longest.as_millis()).unwrap_or(i64::MAX));
        loop {
            let late = store.read(async |conn: &mut Conn| notification::late(conn, oldest, LOOKED_THROUGH).await).await;
            let late = late.map_err(|e| e.to_string())?;
            if late.is_empty() {
                return Ok(());
            }
            let ids = &late;
            store.write(async |conn: &mut Conn| notification::remove(conn, ids).await).await.map_err(|e| e.to_string())?;
            *dropped += late.len();
        }
    }

    /// Sends rows in order, noting what the broker has; false when the task went to somebody else.
    async fn send(&mut self, rows: &[Waiting], until: &mut Instant) -> Result<bool, String> {
        for row in rows {
            if self.cx.stop.is_cancelled() {
                return Ok(false);
            }
            if self.notifier.is_none() {
                let connected = Notifier::connect(&self.bus, self.attempt).await;
                self.has_failed |= connected.is_err();
                self.notifier = Some(connected?);
            }
            let Some(notifier) = &self.notifier else { return Ok(false) };
            // A priority of a newer version.
            let priority = Priority::parse(&row.priority).unwrap_or(Priority::Info);
            // One that refuses costs those before it no second message.
            for (before, topic) in self.bus.topics.iter().enumerate().skip(self.confirmed.topics(row.id)) {
                // Before each topic: however many there are, two never send at once. Who comes after one that was interrupted here sends to all.
                if !self.holds(until).await? {
                    self.confirmed.under_way = None;
                    return Ok(false);
                }
                let published = notifier.publish(topic, &row.uuid, priority, &row.body).await;
                self.has_failed = published.is_err();
                published?;
                self.confirmed.under_way = Some((row.id, before + 1));
            }
            self.confirmed.under_way = None;
            self.confirmed.rows.push(row.id);
            self.cx.metrics.notifications_sent(1);
        }
        Ok(true)
    }

    /// Whether the task is ours until a topic has been sent to; it is lengthened where it would not be. False when it went to somebody else.
    async fn holds(&self, until: &mut Instant) -> Result<bool, String> {
        if Instant::now() + MARGIN > *until {
            // Not taken anew: whoever has had it since may have sent what was read before.
            let asked = Instant::now();
            let (owner, lease) = (&self.cx.owner, millis(now()) + LEASE.as_millis() as i64);
            let is_ours = self.cx.store.write(async |conn: &mut Conn| task::lengthen(conn, TASK, owner, lease).await).await;
            if !is_ours.map_err(|e| e.to_string())? {
                return Ok(false);
            }
            *until = asked + LEASE;
            // It counts from before it was asked for.
            if Instant::now() + MARGIN > *until {
                return Err("the database took too long to lengthen the task of sending".to_owned());
            }
        }
        Ok(true)
    }

    /// Takes the task; until when it is ours.
    async fn take(&self) -> Result<Option<Instant>, String> {
        let asked = Instant::now();
        let at = millis(now());
        let (owner, lease) = (&self.cx.owner, at + LEASE.as_millis() as i64);
        let taken = self.cx.store.write(async |conn: &mut Conn| task::take(conn, TASK, owner, at, lease).await).await;
        Ok(taken.map_err(|e| e.to_string())?.then(|| asked + LEASE))
    }

    async fn stop(self) {
        if let Some(notifier) = self.notifier {
            notifier.close().await;
        }
    }
}
