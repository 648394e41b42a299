//! Members of stacks that do not become nodes: machines that say so, machines that say nothing, and servers that end in ERROR.
//!
//! Whatever makes or changes a stack may meet it, and so what comes after it: the operation fails, and whoever does it again, or asks for
//! something else, has to pass by those that failed (`promises.rs` says which of them may be there afterwards).

use cloud_simulator::{Answered, Mishap};
use model::random::range;
use serde_json::Value;

use crate::scene::Scene;

/// How often a change of a stack meets it, out of 1000, in seeds whose users go on from there (`requests.rs`).
pub const OFTEN: u32 = 400;

/// What a machine says of itself that is no part of the cluster: it never tried to join.
pub const ABSENT: &str = "absent";
/// What one says that joined, and may be a part of it: its name.
const JOINED: &str = "a-node";

/// After a call to the cloud: where it has made or changed a stack, some of the members that this makes may fail when it would be done.
pub fn befall(scene: &mut Scene, call: &str, path: &str, answered: &Answered) {
    if !(200..300).contains(&answered.status) {
        return;
    }
    let chance = scene.weather.members_fail;
    let (stack, chance) = match call {
        // Where nothing is made, there is nothing to go on from.
        "heat.stack_create" => (made(answered), chance / 4),
        "heat.stack_update" => (path.rsplit('/').next().map(str::to_owned), chance),
        _ => return,
    };
    let Some(stack) = stack else { return };
    let cloud = scene.cloud.cloud();
    let spoiled = cloud.spoiled_members(&stack);
    let mut members = cloud.awaited_members(&stack);
    // Whoever has failed, and is passed by now, is what it is.
    members.retain(|member| !spoiled.iter().any(|(known, _)| known == member));
    if members.is_empty() || !scene.comes(chance) {
        return;
    }
    let one = range(0..members.len());
    for (place, member) in members.iter().enumerate() {
        if place != one && range(0..3) > 0 {
            continue;
        }
        let mishap = match range(0..5) {
            0 | 1 => Mishap::Says(ABSENT.to_owned()),
            2 => Mishap::Says(JOINED.to_owned()),
            3 => Mishap::Silent,
            _ => Mishap::NoServer,
        };
        let line = format!("{member} of stack {stack} will be no node: {mishap:?}");
        if cloud.spoil_member(&stack, member, mishap) {
            scene.counts.members += 1;
            scene.trace(&line);
        }
    }
}

/// The id of the stack that an answer tells.
fn made(answered: &Answered) -> Option<String> {
    let body: Value = serde_json::from_slice(&answered.body).ok()?;
    body["stack"]["id"].as_str().map(str::to_owned)
}
