//! What the system of an image does not do on a node.

use super::*;

#[test]
fn nodes_of_no_image_update_themselves() {
    let none = labels(&[]);
    for distro in DISTROS {
        let rendered = done(&StackInput { distro, ..input(&none) });
        let (path, text) = match distro {
            Distro::FedoraCoreos => ("/etc/zincati/config.d/90-no-automatic-updates.toml", "[updates]\nenabled = false\n"),
            Distro::Flatcar => ("/etc/flatcar/update.conf", "SERVER=disabled\nREBOOT_STRATEGY=off\n"),
            Distro::Ubuntu => ("/etc/apt/apt.conf.d/90-no-automatic-updates", "APT::Periodic::Enable \"0\";\n"),
        };
        for kind in ["master", "worker"] {
            assert_eq!(content(user_data(&rendered, kind), path), text, "{kind}");
        }
    }
}

#[test]
fn pods_do_not_reach_the_metadata_service_and_networkd_leaves_it_at_that() {
    let none = labels(&[("flannel_network_cidr", "10.20.0.0/16")]);
    for distro in DISTROS {
        let rendered = done(&StackInput { distro, ..input(&none) });
        for kind in ["master", "worker"] {
            let kubelet = content(user_data(&rendered, kind), "/etc/systemd/system/kubelet.service");
            let rule = "ip rule add pref 50 protocol kernel from 10.20.0.0/16 to 169.254.169.254 prohibit";
            assert!(kubelet.contains(rule), "{kubelet}");
        }
    }
    let rendered = done(&StackInput { distro: Distro::Ubuntu, ..input(&none) });
    for kind in ["master", "worker"] {
        let networkd = content(user_data(&rendered, kind), "/etc/systemd/networkd.conf.d/90-pod-network.conf");
        assert_eq!(networkd, "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n", "{kind}");
    }
}
