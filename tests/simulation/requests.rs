//! What the users of a seed ask for, and when.

use std::time::Duration;

use model::random::range;

use crate::older;
use crate::workload::Act;

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub at: Duration,
    pub cluster: usize,
    pub act: Act,
}

/// What may be asked for in any order.
const ACTS: [Act; 13] = [
    Act::Resize,
    Act::Patch,
    Act::AddGroup,
    Act::ResizeGroup,
    Act::UpdateGroup,
    Act::Relabel,
    Act::RemoveGroup,
    Act::RotateCredential,
    Act::Upgrade,
    Act::RotateAuthorities,
    Act::Cancel,
    Act::CancelNewest,
    Act::Retry,
];

/// From and to which second after the creation, and what.
type Plan = &'static [(u64, u64, Act)];

/// What the first cluster of a seed is asked for, by the seed's number: from and to which second after its creation, and what. By chance alone
/// some ends would come in one of a hundred seeds only: what needs a cluster at rest, or two requests close to each other. What may be too early
/// is asked for again. None: whatever chance brings.
fn plan(seed: u64) -> Option<Plan> {
    use Act::{
        AddGroup, Cancel, CancelNewest, Delete, ForceDelete, Patch, Relabel, RemoveGroup, Resize, ResizeGroup, Retry, RotateAuthorities,
        RotateCredential, UpdateGroup, Upgrade,
    };
    let plan: Plan = match seed % 10 {
        0 => &[(35, 50, Patch), (70, 85, Patch), (100, 110, Patch), (110, 111, AddGroup), (111, 113, CancelNewest)],
        1 => &[(35, 45, Resize), (45, 47, CancelNewest), (70, 80, Resize), (80, 81, Resize), (81, 83, CancelNewest)],
        2 => &[
            (35, 45, AddGroup),
            (46, 60, UpdateGroup),
            (60, 75, ResizeGroup),
            (75, 85, AddGroup),
            (85, 95, UpdateGroup),
            (100, 101, RemoveGroup),
            (101, 103, CancelNewest),
            (103, 104, RemoveGroup),
        ],
        3 => &[(35, 50, Upgrade), (90, 110, Upgrade)],
        4 => &[(35, 50, RotateAuthorities), (90, 110, RotateAuthorities)],
        5 => &[(35, 50, RotateCredential), (50, 52, Resize), (52, 56, CancelNewest), (90, 110, RotateCredential)],
        6 => &[(35, 45, AddGroup), (45, 46, Cancel), (60, 75, Retry), (75, 76, ResizeGroup), (76, 78, CancelNewest), (95, 110, Retry)],
        7 => &[(35, 40, AddGroup), (50, 60, Resize), (60, 61, Delete), (61, 62, RemoveGroup), (62, 63, ForceDelete)],
        8 => &[(35, 45, Relabel), (46, 60, Resize), (60, 75, Relabel), (75, 90, Patch), (91, 105, Resize)],
        // Whoever asks again goes on past members that did not become nodes.
        _ => match seed / 10 % 5 {
            0 => &[(35, 45, Upgrade), (70, 75, Retry), (110, 115, Retry), (150, 155, Retry), (190, 195, Retry)],
            1 => &[
                (35, 40, Resize),
                (60, 62, RotateCredential),
                (95, 97, Retry),
                (130, 132, Resize),
                (160, 162, RotateCredential),
                (190, 195, Retry),
            ],
            2 => &[(35, 45, RotateAuthorities), (75, 80, Retry), (115, 120, Retry), (155, 160, Retry), (195, 200, Retry)],
            3 => &[
                (35, 37, AddGroup),
                (60, 62, Retry),
                (80, 82, ResizeGroup),
                (105, 107, UpdateGroup),
                (130, 132, Resize),
                (155, 157, Resize),
                (180, 185, Retry),
            ],
            _ => return None,
        },
    };
    Some(plan)
}

/// What the second cluster of a seed is asked for in which a conductor is of an earlier release: an update of a group waits that is making, which only
/// the others understand, and is cancelled.
const BESIDE_AN_OLDER_ONE: Plan = &[(35, 37, Act::AddGroup), (37, 38, Act::UpdateGroup), (40, 70, Act::CancelNewest), (75, 90, Act::Retry)];

/// What the second cluster of other seeds is asked for: its creation is cancelled at once, in part before it has begun, and done again.
const GIVEN_UP_BEFORE_IT_BEGINS: Plan = &[(0, 1, Act::Cancel), (20, 25, Act::Retry), (90, 100, Act::Resize)];

/// Whether the users of a seed go on past members of stacks that failed, of which there are many then.
pub fn goes_on_past_failed_members(seed: u64) -> bool {
    seed % 10 == 9 && plan(seed).is_some()
}

/// What the users of a seed ask for, in order, and how many clusters it is about.
pub fn draw(seed: u64) -> (Vec<Request>, usize) {
    let clusters = range(1..=3);
    let between = |from: u64, to: u64| Duration::from_millis(range(from * 1000..to * 1000));
    let mut requests = Vec::new();
    for cluster in 0..clusters {
        let begin = between(0, 20);
        let mut ask = |at: Duration, act: Act| requests.push(Request { at: begin + at, cluster, act });
        ask(Duration::ZERO, Act::Create);
        let plan = match cluster {
            0 => plan(seed),
            1 if older::is_there(seed) => Some(BESIDE_AN_OLDER_ONE),
            1 if seed % 10 == 4 => Some(GIVEN_UP_BEFORE_IT_BEGINS),
            _ => None,
        };
        if let Some(plan) = plan {
            for &(from, to, act) in plan {
                ask(between(from, to), act);
            }
            continue;
        }
        for _ in 0..range(0..4) {
            ask(between(5, 110), ACTS[range(0..ACTS.len())]);
        }
        match range(0..5) {
            0 => ask(between(0, 4), Act::removal()),
            1 => ask(between(0, 20), Act::removal()),
            2 => ask(between(30, 120), Act::removal()),
            _ => {}
        }
    }
    requests.sort_by_key(|r| r.at);
    (requests, clusters)
}
