//! How long the work of a dead conductor waits for another one: from what was done to it to the claim of each operation that it held.

use std::collections::HashMap;

use anyhow::Result;

use crate::database::Database;

/// Something after which a process does no more work under its leases.
#[derive(Clone, Debug)]
pub struct Death {
    pub pid: u32,
    pub at_ms: i64,
    pub how: &'static str,
}

/// One operation that another conductor took over.
#[derive(Clone, Debug)]
pub struct Takeover {
    pub operation: String,
    pub how: &'static str,
    pub seconds: f64,
}

/// A claim, as its event tells it: operation, time, kind, owner.
type Claim = (String, i64, String, String);

/// All takeovers from owners who died, and how many there were from owners who only could not renew (the database was away).
pub async fn takeovers(database: &Database, deaths: &[Death]) -> Result<(Vec<Takeover>, usize)> {
    let sql = "SELECT operation_uuid, at_ms, kind, message FROM operation_event WHERE kind IN ('claimed', 'taken_over') ORDER BY id";
    Ok(match_up(&database.rows::<Claim>(sql).await?, deaths))
}

fn match_up(claims: &[Claim], deaths: &[Death]) -> (Vec<Takeover>, usize) {
    let mut owners: HashMap<&str, (i64, &str)> = HashMap::new();
    let (mut takeovers, mut others) = (Vec::new(), 0);
    for (operation, at, kind, owner) in claims {
        let before = owners.insert(operation, (*at, owner));
        let Some((since, previous)) = before.filter(|_| kind == "taken_over") else { continue };
        let pid = pid_of(previous);
        // What was done to him first while he held it.
        let death = deaths.iter().filter(|d| Some(d.pid) == pid && d.at_ms >= since && d.at_ms <= *at).min_by_key(|d| d.at_ms);
        match death {
            Some(death) => {
                let seconds = (at - death.at_ms) as f64 / 1000.0;
                takeovers.push(Takeover { operation: operation.clone(), how: death.how, seconds });
            }
            None => others += 1,
        }
    }
    (takeovers, others)
}

/// The process in an owner's name (host:pid:random).
fn pid_of(owner: &str) -> Option<u32> {
    owner.rsplit(':').nth(1)?.parse().ok()
}

/// The value below which this share of the (sorted) values lies; none without values.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((share * last as f64).ceil() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(at: i64, kind: &str, pid: u32) -> Claim {
        ("o".to_owned(), at, kind.to_owned(), format!("host:{pid}:abc"))
    }

    fn death(pid: u32, at_ms: i64) -> Death {
        Death { pid, at_ms, how: "kill -9" }
    }

    #[test]
    fn a_takeover_counts_from_the_death_of_the_owner_while_he_held_the_operation() {
        let claims = [claim(1_000, "claimed", 1), claim(12_000, "taken_over", 2), claim(30_000, "taken_over", 1)];
        // The second death of 1 was before it had taken the operation back, and 2 did not die at all.
        let (found, others) = match_up(&claims, &[death(1, 500), death(1, 3_000), death(1, 20_000)]);
        assert_eq!(found.iter().map(|t| t.seconds).collect::<Vec<_>>(), [9.0]);
        assert_eq!(others, 1);
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let seconds = [1.0, 2.0, 3.0, 40.0];
        assert_eq!((quantile(&seconds, 0.5), quantile(&seconds, 0.99), quantile(&[], 0.5)), (Some(3.0), Some(40.0), None));
    }
}
