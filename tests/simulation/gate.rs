//! A conductor's way to the database.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use model::random::range;
use model::store::{Gate, StoreError};
use tokio::time::sleep;

use crate::scene;

/// Of the conductor with this number.
pub struct Way(pub usize);

impl Gate for Way {
    fn enter(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let conductor = self.0;
        async move {
            sleep(pace()).await;
            scene::while_alive(conductor).await;
            if scene::with(|s| s.cut(conductor).store) {
                sleep(Duration::from_millis(range(10..3_000))).await;
                return Err(StoreError::Unavailable("cut off".into()));
            }
            let fails = scene::with(|s| {
                s.counts.transactions += 1;
                s.happens(|w| w.store_fails)
            });
            if fails {
                scene::with(|s| s.trace(&format!("c{conductor} the store fails")));
                return Err(StoreError::Unavailable("no connection".into()));
            }
            Ok(())
        }
        .boxed()
    }

    fn leave(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let conductor = self.0;
        async move {
            sleep(pace()).await;
            scene::while_alive(conductor).await;
            let (is_cut, is_lost) = scene::with(|s| (s.cut(conductor).store, s.happens(|w| w.commit_unknown)));
            if is_cut || is_lost {
                scene::with(|s| s.trace(&format!("c{conductor} an answer of the store is lost")));
                return Err(StoreError::Unavailable("lost connection".into()));
            }
            Ok(())
        }
        .boxed()
    }
}

/// How long one way takes: milliseconds, sometimes seconds.
fn pace() -> Duration {
    let most = if scene::with(|s| s.happens(|w| w.store_slow)) { 4_000 } else { 6 };
    Duration::from_millis(range(0..most))
}
