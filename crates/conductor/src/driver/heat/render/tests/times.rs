//! How long the first boot of a node may take.

use super::*;

#[test]
fn a_node_is_done_before_heat_waits_no_longer_and_before_its_word_counts_no_more() {
    let none = labels(&[]);
    for (timeout_minutes, token_seconds, wanted) in [
        (60, None, 2700),
        // Keystone's own default, and the default of a cluster.
        (60, Some(3600), 2700),
        (120, Some(3600), 2700),
        (120, None, 5400),
        (120, Some(86_400), 5400),
        (60, Some(1800), 1350),
        // Heat waits no longer than half a day.
        (6000, Some(u32::MAX), 32_400),
        (6000, Some(3600), 2700),
        (60, Some(1), 45),
        (0, Some(3600), 45),
    ] {
        let rendered = done(&StackInput { timeout_minutes, token_seconds, ..input(&none) });
        for kind in ["master", "worker"] {
            let env = content(user_data(&rendered, kind), "/etc/kubernetes-bootstrap/node.env");
            assert!(env.contains(&format!("WAIT_SECONDS='{wanted}'\n")), "{timeout_minutes} {token_seconds:?} {kind}: {env}");
            let unit = content(user_data(&rendered, kind), "/etc/systemd/system/kubernetes-bootstrap.service");
            assert!(unit.contains(&format!("TimeoutStartSec={}\n", wanted + 120)), "{unit}");
        }
        // What Heat is told is the time of the whole.
        assert_eq!(rendered.parameters["wait_condition_timeout"], (timeout_minutes * 60).clamp(60, 43_200));
    }
}
