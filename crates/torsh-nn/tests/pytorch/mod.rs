//! Layers against what PyTorch gives, from data/recurrent.safetensors.

use std::path::Path;

use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_tensor::Tensor;

/// The tensors of one case.
pub struct Case {
    name: String,
    all: StateDict,
}

impl Case {
    pub fn new(name: &str) -> Case {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/recurrent.safetensors");
        Case {
            name: name.to_string(),
            all: StateDict::load(file).unwrap(),
        }
    }

    /// The tensors whose names begin so.
    pub fn below(&self, prefix: &str) -> StateDict {
        let prefix = format!("{}/{prefix}", self.name);
        let named = |(n, t): (&str, &Tensor)| {
            n.strip_prefix(prefix.as_str())
                .map(|n| (n.to_string(), t.clone()))
        };
        self.all.iter().filter_map(named).collect()
    }

    /// An input, which asks for gradients.
    pub fn input(&self, name: &str) -> Tensor {
        self.all[&format!("{}/{name}", self.name)]
            .copy()
            .and_then(|t| t.to_device(torsh_tensor::default_device()))
            .unwrap()
            .requires_grad_(true)
    }

    /// Loads the parameters, whose names and shapes must be the layer's.
    pub fn load(&self, layer: &impl Module) {
        let state = self.below("param.");
        let own = layer.state_dict();
        assert_eq!(
            own.keys().collect::<Vec<_>>(),
            self.names_in_order(&own, &state),
            "{}",
            self.name
        );
        layer.load_state_dict(&state).unwrap();
    }

    /// The file's names are sorted, the layer's are not: its own, where the file has them.
    fn names_in_order<'a>(&self, own: &'a StateDict, state: &StateDict) -> Vec<&'a str> {
        assert_eq!(own.len(), state.len(), "{}", self.name);
        own.keys().filter(|k| state.contains_key(k)).collect()
    }

    /// Compares outputs, and the gradients of parameters and inputs.
    pub fn check(&self, layer: &impl Module, outputs: &[Tensor], inputs: &[(&str, &Tensor)]) {
        let mut loss = Tensor::scalar(0.0, outputs[0].dtype(), outputs[0].device()).unwrap();
        assert_eq!(outputs.len(), self.below("out.").len(), "{}", self.name);
        for (i, y) in outputs.iter().enumerate() {
            self.compare(&format!("out.{i}"), y);
            let weights: Vec<f32> = (0..y.numel())
                .map(|k| (k as f32 * 0.7 + i as f32).cos())
                .collect();
            let weights = Tensor::from_vec(weights, y.shape()).unwrap();
            loss = loss.add(&y.mul(&weights).unwrap().sum().unwrap()).unwrap();
        }
        loss.backward().unwrap();
        for (name, p) in layer.named_parameters() {
            self.compare(&format!("grad.{name}"), &p.grad().unwrap());
        }
        for (name, x) in inputs {
            self.compare(&format!("grad.{name}"), &x.grad().unwrap());
        }
    }

    pub fn compare(&self, what: &str, got: &Tensor) {
        let expected = &self.all[&format!("{}/{what}", self.name)];
        assert_eq!(got.dims(), expected.dims(), "{} {what}", self.name);
        let (a, b) = (
            got.detach().to_vec::<f32>().unwrap(),
            expected.to_vec::<f32>().unwrap(),
        );
        for (a, b) in a.iter().zip(&b) {
            assert!(
                (a - b).abs() <= 2e-5 + 2e-5 * b.abs(),
                "{} {what}: {a} and {b}\n{got:?}\n{expected:?}",
                self.name
            );
        }
    }
}

/// Compares freshly drawn parameters.
pub fn same_start(name: &str, layer: &impl Module) {
    let case = Case::new(name);
    assert_eq!(layer.state_dict().len(), case.below("").len(), "{name}");
    for (key, t) in layer.state_dict().iter() {
        case.compare(key, t);
    }
}
