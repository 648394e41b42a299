use super::*;

fn limit(most: Option<u64>, used: u64) -> Limit {
    Limit { most, used }
}

fn weighed(count: u64, vcpus: u64, ram: u64) -> Weighed {
    Weighed { count, flavor: Flavor { ram, vcpus, ..Flavor::default() }, is_plain: true }
}

fn says(need: &Need, weighed: Option<&[Weighed]>, told: &Told) -> String {
    missing(need.count(), &counted(need, weighed, told)).unwrap_or_default()
}

#[test]
fn what_is_short_is_told_with_what_is_left() {
    let need = Need { nodes: vec![(3, "small".into()), (1, "large".into())], ..Need::default() };
    let says = |instances, cores, ram| {
        let compute =
            ComputeLimits { instances: limit(instances, 2), cores: limit(cores, 4), ram: limit(ram, 0), ..ComputeLimits::default() };
        says(&need, Some(&[weighed(3, 2, 2048), weighed(1, 4, 8192)]), &Told { compute: Some(compute), ..Told::default() })
    };
    assert_eq!(says(Some(6), Some(14), Some(14_336)), "");
    assert_eq!(says(None, None, None), "");
    assert!(says(Some(5), None, None).ends_with("4 more nodes: 4 instances are needed and 3 are left"));
    let both = "10 cores are needed and 9 are left, 14336 MiB of memory are needed and 100 are left";
    assert!(says(None, Some(13), Some(100)).ends_with(both));
    // Lowered below what is used.
    assert!(says(Some(1), None, None).ends_with("and 0 are left"));
}

#[test]
fn every_service_may_be_short_and_one_that_does_not_tell_is_not() {
    let need =
        Need { server_group_members: 11, gigabytes: 30, volumes: 3, ports: 5, floating_ips: 2, load_balancers: 1, ..Need::default() };
    assert_eq!(says(&need, None, &Told::default()), "");
    let told = Told {
        compute: Some(ComputeLimits { server_group_members: limit(Some(10), 0), ..ComputeLimits::default() }),
        volumes: Some(VolumeLimits { volumes: limit(Some(3), 0), gigabytes: limit(Some(1000), 980) }),
        network: Some(NetworkLimits { ports: limit(Some(5), 0), floating_ips: limit(Some(1), 0), ..NetworkLimits::default() }),
        load_balancers: Some(limit(Some(0), 0)),
    };
    let want = [
        "11 members of one server group are needed and 10 can be",
        "30 GiB of volumes are needed and 20 are left",
        "2 floating IPs are needed and 1 is left",
        "1 load balancer is needed and 0 are left",
    ];
    let short = says(&need, None, &told);
    assert!(short.ends_with(&want.join(", ")), "{short}");
}

#[test]
fn what_nobody_tells_is_told_as_unknown_before_anything_is_begun() {
    let need = Need { nodes: vec![(2, "pinned".into())], volumes: 1, ..Need::default() };
    let compute = ComputeLimits { instances: limit(Some(5), 1), cores: limit(Some(2), 0), ram: limit(None, 7), ..ComputeLimits::default() };
    let told = Told { compute: Some(compute), ..Told::default() };
    // Nova counts cores of its own for them.
    let pinned = Weighed { is_plain: false, ..weighed(2, 4, 4096) };
    let all = largest([counted(&need, Some(&[pinned]), &told)].into_iter());
    let seen: Vec<_> =
        all.iter().map(Counted::quota_use).map(|q| (q.resource, q.needed, q.is_told, q.limit, q.used, q.is_enough())).collect();
    assert_eq!(
        seen,
        [
            ("instances", Some(2), true, Some(5), Some(1), Some(true)),
            ("cores", None, true, Some(2), Some(0), None),
            ("ram", None, true, None, None, Some(true)),
            ("volumes", Some(1), false, None, None, None),
        ]
    );
    assert_eq!(missing(2, &all), None);
}

#[test]
fn of_what_comes_one_behind_the_other_the_largest_counts() {
    let (master, workers) = (Need { nodes: vec![(1, "m".into())], ports: 1, ..Need::default() }, Need { ports: 4, ..Need::default() });
    let told = Told { network: Some(NetworkLimits { ports: limit(Some(10), 7), ..NetworkLimits::default() }), ..Told::default() };
    let all = largest([counted(&master, Some(&[weighed(1, 8, 1)]), &told), counted(&workers, Some(&[]), &told)].into_iter());
    let seen: Vec<_> = all.iter().map(Counted::quota_use).map(|q| (q.resource, q.needed, q.is_short)).collect();
    assert_eq!(seen, [("instances", Some(1), false), ("cores", Some(8), false), ("ram", Some(1), false), ("ports", Some(4), true)]);
    assert!(missing(1, &all).is_some_and(|text| text.ends_with("4 ports are needed and 3 are left")));
}
