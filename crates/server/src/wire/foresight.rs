//! What operations would do, told to the API by the conductor's own counting.

use std::sync::Arc;

use conductor::Forecaster;
use futures::future::BoxFuture;
use model::forecast::{Forecast, Intent, NotForeseen};
use provider_clients::Session;

use super::{capi, roles};
use crate::config::Config;

struct ByCounting(Forecaster);

impl api::Foresight for ByCounting {
    fn forecast<'a>(&'a self, intent: &'a Intent, session: Option<&'a Session>) -> BoxFuture<'a, Result<Forecast, NotForeseen>> {
        Box::pin(self.0.forecast(intent, session))
    }
}

/// By the configuration alone. What conductors read of files (authorities, a policy for Keystone's users) is for the first boot of nodes,
/// which nothing is counted from; the API's host need not have them.
pub(super) fn foresight(config: &Config) -> Arc<dyn api::Foresight> {
    Arc::new(ByCounting(Forecaster::new(roles::without_files(config), capi::labels(config))))
}
