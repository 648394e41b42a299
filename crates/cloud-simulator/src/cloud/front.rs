//! What stands in front of Heat.

use super::Cloud;
use crate::heat::Front;

impl Cloud {
    /// Has requests whose address is longer than this answered with a status by something in front of Heat, or not at all.
    pub fn shorten_addresses_of_heat(&self, longest: usize, status: Option<u16>) {
        self.world().heat.front = Some(Front { longest, status });
    }
}
