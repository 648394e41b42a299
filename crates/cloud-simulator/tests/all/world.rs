//! A cloud of its own for each test, and the few calls all tests make.

use std::time::{Duration, Instant};

use cloud_simulator::{Cloud, Options, Simulator};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};

/// Nothing in these tests takes longer.
const DEADLINE: Duration = Duration::from_secs(20);

pub struct World {
    pub simulator: Simulator,
    pub cloud: Cloud,
    pub client: Client,
    base: String,
}

impl World {
    /// A cloud whose stacks take no time.
    pub async fn quick() -> Self {
        Self::new(Duration::ZERO).await
    }

    pub async fn new(stack_duration: Duration) -> Self {
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = Options { stack_duration, delete_duration: stack_duration, ..Options::default() };
        let simulator = Simulator::start(options).await.expect("a free port on loopback");
        let base = simulator.auth_url().replace("/identity/v3", "");
        let client = Client::builder().timeout(DEADLINE).build().expect("a client");
        Self { cloud: simulator.cloud(), simulator, client, base }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub fn stacks_path(&self) -> String {
        format!("/orchestration/v1/{}/stacks", self.cloud.project_id("demo"))
    }

    pub async fn send(&self, method: Method, path: &str, token: &str, body: Option<Value>) -> reqwest::Result<Response> {
        let mut request = self.client.request(method, self.url(path)).header("X-Auth-Token", token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        request.send().await
    }

    pub async fn get(&self, path: &str, token: &str) -> (StatusCode, Value) {
        read(self.send(Method::GET, path, token, None).await.expect("an answer")).await
    }

    pub async fn post(&self, path: &str, token: &str, body: Value) -> (StatusCode, Value) {
        read(self.send(Method::POST, path, token, Some(body)).await.expect("an answer")).await
    }

    pub async fn delete(&self, path: &str, token: &str) -> (StatusCode, Value) {
        read(self.send(Method::DELETE, path, token, None).await.expect("an answer")).await
    }

    pub async fn log_in(&self, user: &str, password: &str, domain: &str, scope: Value) -> (StatusCode, String, Value) {
        let user = json!({"name": user, "password": password, "domain": {"name": domain}});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        self.authenticate(identity, scope).await
    }

    pub async fn authenticate(&self, identity: Value, scope: Value) -> (StatusCode, String, Value) {
        let body = json!({"auth": {"identity": identity, "scope": scope}});
        let response = self.client.post(self.url("/identity/v3/auth/tokens")).json(&body).send().await.expect("an answer");
        let token = response.headers().get("X-Subject-Token").map(|token| token.to_str().expect("text").to_owned());
        let (status, body) = read(response).await;
        (status, token.unwrap_or_default(), body)
    }

    pub async fn validate(&self, service: &str, subject: &str) -> (StatusCode, Value) {
        let request = self.client.get(self.url("/identity/v3/auth/tokens"));
        let request = request.header("X-Auth-Token", service).header("X-Subject-Token", subject);
        read(request.send().await.expect("an answer")).await
    }

    pub async fn domain_admin(&self) -> String {
        let scope = json!({"domain": {"name": "magnum"}});
        let (status, token, _) = self.log_in("magnum_domain_admin", cloud_simulator::SERVICE_PASSWORD, "magnum", scope).await;
        assert_eq!(status, 201);
        token
    }

    /// A trustee with this password; its id.
    pub async fn trustee(&self, name: &str, password: &str) -> String {
        let admin = self.domain_admin().await;
        let user = json!({"user": {"name": name, "password": password}});
        let (status, body) = self.post("/identity/v3/users", &admin, user).await;
        assert_eq!(status, 201, "{body}");
        text(&body["user"]["id"])
    }

    pub async fn as_trustee(&self, user: &str, password: &str, trust: &str) -> (StatusCode, String, Value) {
        let identity = json!({"methods": ["password"], "password": {"user": {"id": user, "password": password}}});
        self.authenticate(identity, json!({"OS-TRUST:trust": {"id": trust}})).await
    }

    /// Waits until a stack has this status.
    pub async fn until_status(&self, path: &str, token: &str, wanted: &str) -> Value {
        let start = Instant::now();
        loop {
            let (_, body) = self.get(path, token).await;
            if body["stack"]["stack_status"] == wanted {
                return body["stack"].clone();
            }
            assert!(start.elapsed() < DEADLINE, "waited for {wanted}, saw {body}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub async fn read(response: Response) -> (StatusCode, Value) {
    let status = response.status();
    let bytes = response.bytes().await.expect("a body");
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}")).to_owned()
}

/// A stack as a cluster has it: a network, a load balancer, two groups of nodes.
pub fn cluster(name: &str) -> Value {
    let template = "
heat_template_version: queens
description: a cluster
parameters:
  number_of_masters: {type: number, default: 1}
  number_of_minions: {type: number, default: 1}
  minions_to_remove: {type: comma_delimited_list, default: []}
  with_floating_ip: {type: boolean, default: false}
  cluster_uuid: {type: string}
  password: {type: string, hidden: true, default: secret}
conditions:
  floating: {equals: [{get_param: with_floating_ip}, true]}
resources:
  network: {type: OS::Neutron::Net}
  secgroup: {type: OS::Neutron::SecurityGroup}
  api_lb: {type: OS::Octavia::LoadBalancer, properties: {name: {list_join: ['-', [{get_param: 'OS::stack_name'}, api]]}}}
  api_floating: {type: OS::Neutron::FloatingIP, condition: floating}
  kube_masters:
    type: OS::Heat::ResourceGroup
    depends_on: [network]
    properties:
      count: {get_param: number_of_masters}
      resource_def:
        type: node.yaml
        properties:
          name: {str_replace: {template: $stack-master-%index%, params: {$stack: {get_param: 'OS::stack_name'}}}}
          network: {get_resource: network}
  kube_minions:
    type: OS::Heat::ResourceGroup
    depends_on: kube_masters
    properties:
      count: {get_param: number_of_minions}
      removal_policies: [{resource_list: {get_param: minions_to_remove}}]
      resource_def: {type: node.yaml, properties: {name: 'node-%index%', network: {get_resource: network}}}
outputs:
  api_address: {value: {get_attr: [api_lb, vip_address]}}
  kube_masters: {value: {get_attr: [kube_masters, ip]}}
  kube_masters_private: {value: {get_attr: [kube_masters, ip]}}
  kube_minions: {value: {get_attr: [kube_minions, ip]}}
  kube_minions_private: {value: {get_attr: [kube_minions, ip]}}
  network: {value: {get_resource: network}}
  groups: {value: {list_concat: [[{get_resource: secgroup}], {if: [floating, [{get_resource: api_floating}], []]}]}}
  refs_map: {value: {get_attr: [kube_minions, refs_map]}}
";
    let node = "
heat_template_version: queens
parameters:
  name: {type: string}
  network: {type: string}
resources:
  port: {type: OS::Neutron::Port, properties: {network: {get_param: network}}}
  server: {type: OS::Nova::Server, properties: {name: {get_param: name}}}
";
    json!({
        "stack_name": name,
        "template": template,
        "files": {"node.yaml": node},
        "parameters": {"number_of_masters": 1, "number_of_minions": "2", "cluster_uuid": "c0ffee"},
        "timeout_mins": 60,
    })
}
