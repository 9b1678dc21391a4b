//! What a model needs, and the graph of what it computed.

use torsh_nn::{BatchNorm2d, Conv2d, Linear, Module, ModuleExt, ReLU, Sequential, sequential};
use torsh_optim::{Adam, Optimizer};
use torsh_profiler::{
    BatchSizeOptions, ComputationGraph, GraphNodeKind, MemoryAnalysisOptions, analyze_memory_usage,
    analyze_memory_usage_with, create_computation_graph, find_optimal_batch_size,
    find_optimal_batch_size_with,
};
use torsh_tensor::{DType, Device, Tensor, no_grad, ones, tensor};

const MB: f64 = 1048576.0;

fn net() -> Sequential {
    sequential![Linear::new(3, 4), ReLU::new(), Linear::new(4, 1)]
}

#[test]
fn a_small_net_as_dot() {
    let graph = create_computation_graph(&net(), &ones(&[2, 3])).unwrap();
    let expected = "digraph {
\tgraph [rankdir=TB]
\tnode [align=left fontname=monospace fontsize=10 height=0.2 shape=box style=filled fillcolor=lightgrey]
\tn0 [label=\"[2, 1]\" fillcolor=darkolivegreen1]
\tn1 [label=\"LinearBackward0\\n[2, 1]\"]
\tn2 [label=\"ReluBackward0\\n[2, 4]\"]
\tn3 [label=\"LinearBackward0\\n[2, 4]\"]
\tn4 [label=\"0.weight\\n[4, 3]\" fillcolor=lightblue]
\tn5 [label=\"0.bias\\n[4]\" fillcolor=lightblue]
\tn6 [label=\"2.weight\\n[1, 4]\" fillcolor=lightblue]
\tn7 [label=\"2.bias\\n[1]\" fillcolor=lightblue]
\tn1 -> n0
\tn2 -> n1
\tn3 -> n2
\tn4 -> n3
\tn5 -> n3
\tn6 -> n1
\tn7 -> n1
}
";
    assert_eq!(graph.to_dot(), expected);
    let path = std::env::temp_dir().join(format!("torsh_graph_{}.dot", std::process::id()));
    graph.save_as_dot(&path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn shared_nodes_are_shown_once() {
    let x = tensor![1.0, 2.0].requires_grad_(true);
    let y = x.exp().unwrap();
    let z = y.mul(&y).unwrap().add(&x).unwrap();
    let graph = ComputationGraph::of(&z, [("x", &x)]).unwrap();
    let names: Vec<&str> = graph.nodes.iter().map(|n| n.name.as_str()).collect();
    let expected = ["", "AddBackward0", "MulBackward0", "ExpBackward0", "x"];
    assert_eq!(names, expected);
    assert_eq!(
        graph.edges,
        [(1, 0), (2, 1), (3, 2), (4, 3), (3, 2), (4, 1)]
    );
    assert_eq!(graph.nodes[4].kind, GraphNodeKind::Leaf);
    // A leaf without a name, a deep graph, and one that is not there.
    let mut t = x.clone();
    for _ in 0..20_000 {
        t = t.neg().unwrap();
    }
    let deep = ComputationGraph::of(&t, []).unwrap();
    assert_eq!(
        (deep.nodes.len(), deep.nodes[20_001].name.as_str()),
        (20_002, "")
    );
    let e = no_grad(|| create_computation_graph(&net(), &ones(&[2, 3]))).unwrap_err();
    assert!(e.to_string().contains("no recorded graph"), "{e}");
}

#[test]
fn memory_by_hand_and_on_the_meta_device() {
    let convolutional = |device: Device| {
        sequential![
            Conv2d::builder(3, 8, 3)
                .padding(1)
                .device(device)
                .build()
                .unwrap(),
            BatchNorm2d::builder(8).device(device).build().unwrap(),
            ReLU::new()
        ]
    };
    let analyze = |device: Device| {
        let x = Tensor::ones(&[4, 3, 16, 16], DType::F32, device).unwrap();
        let o = MemoryAnalysisOptions::new().optimizer_slots(2);
        analyze_memory_usage_with(&convolutional(device), &x, o).unwrap()
    };
    let m = analyze(Device::Meta);
    let parameters = (8 * 3 * 9 + 8 + 8 + 8) as f64 * 4.0 / MB;
    assert_eq!(m.parameters_mb, parameters);
    // Mean and variance, and the number of batches.
    assert_eq!(m.buffers_mb, (2.0 * 8.0 * 4.0 + 8.0) / MB);
    assert_eq!(m.gradients_mb, parameters);
    assert_eq!(m.optimizer_mb, 2.0 * parameters);
    let map = (4 * 8 * 16 * 16 * 4) as f64 / MB;
    // The convolution's result and the positive part are kept; what batch norm made is not.
    assert!(
        m.activations_mb >= 2.0 * map && m.activations_mb < 2.0 * map + 0.001,
        "{m:?}"
    );
    let sum = m.parameters_mb + m.buffers_mb + m.activations_mb + m.gradients_mb + m.optimizer_mb;
    assert!((m.total_mb - sum).abs() < 1e-12);
    assert_eq!(m.device, Device::Meta);
    // A real pass needs the same.
    let real = analyze(Device::Cpu);
    assert_eq!(real.device, Device::Cpu);
    assert_eq!(
        (real.activations_mb, real.total_mb),
        (m.activations_mb, m.total_mb)
    );
    // And leaves the model as it was.
    let model = convolutional(Device::Cpu);
    analyze_memory_usage(&model, &ones(&[4, 3, 16, 16])).unwrap();
    let buffers = model.named_buffers();
    let mean = buffers
        .iter()
        .find(|(n, _)| n.ends_with("running_mean"))
        .unwrap();
    assert_eq!(mean.1.to_vec::<f32>().unwrap(), [0.0; 8]);
    assert!(model.parameters().iter().all(|p| !p.has_grad()));
}

#[test]
fn optimizers_keep_what_was_foretold() {
    let model = net();
    let o = MemoryAnalysisOptions::new().optimizer_slots(2);
    let m = analyze_memory_usage_with(&model, &ones(&[2, 3]), o).unwrap();
    let adam = Adam::new(model.parameters(), 0.1).unwrap();
    model
        .forward(&ones(&[2, 3]))
        .unwrap()
        .sum()
        .unwrap()
        .backward()
        .unwrap();
    adam.step().unwrap();
    assert_eq!(m.optimizer_mb, 2.0 * (12 + 4 + 4 + 1) as f64 * 4.0 / MB);
    assert_eq!(m.parameters_mb, (12 + 4 + 4 + 1) as f64 * 4.0 / MB);
}

#[test]
fn the_largest_batch_by_hand() {
    let model = |device| {
        let layer = |i, o| {
            Linear::builder(i, o)
                .bias(false)
                .device(device)
                .build()
                .unwrap()
        };
        sequential![layer(256, 512), ReLU::new(), layer(512, 256)]
    };
    let sample = |device| Tensor::ones(&[1, 256], DType::F32, device).unwrap();
    let o = BatchSizeOptions::new().training(false);
    // A forward pass has input, the first layer's result and its positive part at once: 256, 512
    // and 512 numbers a sample, besides 1 MiB of weights.
    let free = |n: usize| 1.0 + (n * (256 + 512 + 512) * 4) as f64 / MB;
    let find = |device, mb: f64| {
        let (model, sample) = (model(device), sample(device));
        find_optimal_batch_size_with(&model, &sample, mb, o.clone())
    };
    for n in [1, 2, 3, 77, 128, 1000] {
        assert_eq!(find(Device::Meta, free(n)).unwrap(), n);
        assert_eq!(find(Device::Meta, free(n + 1) - 1e-6).unwrap(), n);
    }
    assert_eq!(find(Device::Cpu, free(100)).unwrap(), 100);
    assert_eq!(find(Device::Meta, 1e9).unwrap(), 1024);
    let e = find(Device::Meta, 1.0).unwrap_err();
    assert!(e.to_string().contains("one sample needs 1.00 MB"), "{e}");
    let e = find_optimal_batch_size(&model(Device::Meta), &ones(&[3, 256]), 10.0).unwrap_err();
    assert!(e.to_string().contains("a batch of one"), "{e}");
}

#[test]
fn training_takes_more_and_leaves_no_gradients() {
    let model = sequential![Linear::new(64, 64), ReLU::new(), Linear::new(64, 1)];
    let sample = ones(&[1, 64]);
    let inference = BatchSizeOptions::new().training(false);
    let most = find_optimal_batch_size_with(&model, &sample, 0.1, inference).unwrap();
    let training = find_optimal_batch_size(&model, &sample, 0.1).unwrap();
    assert!(training >= 1 && training < most, "{training} {most}");
    assert!(model.parameters().iter().all(|p| !p.has_grad()));
    // The same on the meta device, where nothing is computed.
    let layer = |i, o| Linear::builder(i, o).device(Device::Meta).build().unwrap();
    let meta = sequential![layer(64, 64), ReLU::new(), layer(64, 1)];
    let sample = Tensor::ones(&[1, 64], DType::F32, Device::Meta).unwrap();
    assert_eq!(
        find_optimal_batch_size(&meta, &sample, 0.1).unwrap(),
        training
    );
}
