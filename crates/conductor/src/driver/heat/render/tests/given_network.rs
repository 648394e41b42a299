//! Clusters on a network that is there: what its range forbids.

use super::*;
use crate::driver::PoolKind;

#[test]
fn pods_and_services_of_a_new_cluster_are_apart_from_its_network_and_of_one_that_is_there_this_is_not_asked() {
    for (pairs, range, wanted) in [
        (&[][..], "10.100.8.0/24", Some(("flannel_network_cidr", "10.100.0.0/16 overlaps the nodes' range 10.100.8.0/24"))),
        (&[], "10.254.0.0/20", Some(("service_cluster_ip_range", "10.254.0.0/16 overlaps the nodes' range 10.254.0.0/20"))),
        (&[], "10.0.0.0/8", Some(("flannel_network_cidr", "overlaps the nodes' range"))),
        (
            &[("service_cluster_ip_range", "192.168.7.0/24")],
            "192.168.0.0/16",
            Some(("service_cluster_ip_range", "overlaps the nodes' range")),
        ),
        (&[("flannel_network_cidr", "10.20.0.0/16")], "10.100.8.0/24", None),
        (&[], "192.168.0.0/16", None),
    ] {
        let some = labels(pairs);
        let fixed_range = Some(Cidr::parse(range).expect("a network"));
        let input = StackInput { fixed_network: Some("there"), fixed_subnet: Some("there"), fixed_range, ..input(&some) };
        for refused in [render(&input).err(), without_first_boot(&input).err()] {
            let is_right = match (wanted, &refused) {
                (Some((field, rule)), Some(error)) => error.field == field && error.rule.contains(rule),
                (wanted, refused) => wanted.is_none() && refused.is_none(),
            };
            assert!(is_right, "{pairs:?} {range}: {refused:?}");
        }
        // Of a cluster that was made before anybody asked.
        assert!(worker_user_data(&input).is_ok(), "{range}");
        for kind in [PoolKind::Masters, PoolKind::Workers] {
            assert!(first_boot(&input, kind, None).is_ok(), "{range} {kind:?}");
        }
        group(&input);
    }
    // Where nobody has looked it up nothing can be said of it.
    let none = labels(&[]);
    assert!(render(&StackInput { fixed_network: Some("there"), fixed_subnet: Some("there"), ..input(&none) }).is_ok());
}
