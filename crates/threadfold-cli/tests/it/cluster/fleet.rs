//! Servers behind one address: each connection goes to the next of those that answer.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use threadfold_client::Client;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use super::node::{Node, NodePlace};
use crate::env::TestEnv;

/// Servers behind one address.
pub(crate) struct Fleet<'a> {
    env: &'a TestEnv,
    store: String,
    urls: Vec<String>,
    nodes: Vec<Option<Node>>,
    addresses: Arc<Mutex<Vec<SocketAddr>>>,
}

impl<'a> Fleet<'a> {
    /// Starts so many servers of a store.
    pub(crate) fn start(runtime: &Runtime, env: &'a TestEnv, store: &str, count: usize) -> Self {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let addresses = Arc::new(Mutex::new(Vec::new()));
        runtime.spawn(balance(listener, addresses.clone()));
        let nodes = (0..count).map(|_| None).collect();
        let urls = vec![url];
        let mut fleet = Self { env, store: store.to_owned(), urls, nodes, addresses };
        (0..count).for_each(|number| fleet.start_node(number));
        fleet
    }

    /// Returns a client of whichever server it is sent to.
    pub(crate) fn client(&self) -> Client {
        let token = std::fs::read_to_string(self.env.path("token")).unwrap();
        Client::new(&self.urls[0], Some(token.trim().to_owned())).unwrap()
    }

    pub(crate) fn start_node(&mut self, number: usize) {
        let place = NodePlace {
            env: self.env,
            store: &self.store,
            public_urls: &self.urls,
            network: None,
            sees_others: true,
        };
        let node = Node::start(&place);
        self.addresses.lock().unwrap().push(node.address);
        self.nodes[number] = Some(node);
    }

    /// Kills a server as a crash would.
    pub(crate) fn kill_node(&mut self, number: usize) {
        let node = self.nodes[number].take().unwrap();
        let address = node.address;
        node.kill();
        self.addresses.lock().unwrap().retain(|it| *it != address);
    }
}

async fn balance(listener: TcpListener, addresses: Arc<Mutex<Vec<SocketAddr>>>) {
    let next = Arc::new(AtomicUsize::new(0));
    while let Ok((mut client, _)) = listener.accept().await {
        let (addresses, next) = (addresses.clone(), next.clone());
        tokio::spawn(async move {
            let known = addresses.lock().unwrap().clone();
            for _ in 0..known.len() {
                let number = next.fetch_add(1, Ordering::Relaxed) % known.len();
                if let Ok(mut server) = TcpStream::connect(known[number]).await {
                    client.set_nodelay(true).ok();
                    server.set_nodelay(true).ok();
                    // A client that goes away and a server that is killed end it alike.
                    tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
                    return;
                }
            }
        });
    }
}
