//! What can be done with any module.

use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use torsh_nn::{
    BatchNorm2d, Buffer, Dropout, Hooks, Linear, LoadStateDictOptions, Module, ModuleDict,
    ModuleExt, ModuleList, Parameter, ReLU, Sequential, StateDict, Tanh, sequential,
};
use torsh_tensor::{DType, Device, Result, Tensor};

fn t(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_data(values, shape).unwrap()
}

/// `x * scale + shift`, in tensors that exist in every build.
#[derive(Module)]
struct Affine {
    scale: Parameter,
    shift: Buffer,
    hooks: Hooks,
}

impl Affine {
    fn new(scale: f32, shift: f32) -> Affine {
        Affine {
            scale: Parameter::new(t(&[scale], &[1])),
            shift: Buffer::new(t(&[shift], &[1])),
            hooks: Hooks::new(),
        }
    }
}

impl Module for Affine {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |x| x.mul(&self.scale)?.add(&self.shift))
    }
}

/// Two fields that are one parameter.
#[derive(Module)]
struct Tied {
    first: Affine,
    second: Affine,
}

impl Module for Tied {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.second.forward(&self.first.forward(x)?)
    }
}

fn tied() -> Tied {
    let first = Affine::new(2.0, 1.0);
    let mut second = Affine::new(0.0, 5.0);
    second.scale = first.scale.clone();
    Tied { first, second }
}

fn values(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>().unwrap()
}

#[test]
fn tied_parameters_count_once_and_are_saved_twice() {
    let m = tied();
    assert_eq!(m.parameters().len(), 1);
    assert_eq!(m.named_parameters()[0].0, "first.scale");
    assert_eq!(m.num_parameters(), 1);
    let names: Vec<_> = m.state_dict().keys().map(String::from).collect();
    assert_eq!(
        names,
        ["first.scale", "first.shift", "second.scale", "second.shift"]
    );
    let y = m.forward(&t(&[3.0], &[1])).unwrap();
    assert_eq!(values(&y), [19.0]);
    y.backward().unwrap();
    // d/ds (s (s x + 1) + 5) = 2 s x + 1
    assert_eq!(values(&m.second.scale.grad().unwrap()), [13.0]);
    m.zero_grad();
    assert!(!m.first.scale.has_grad());
}

#[test]
fn to_dtype_replaces_tied_parameters_together() {
    let mut m = tied();
    let old = m.parameters();
    m.first.scale.set_grad(Some(t(&[0.5], &[1]))).unwrap();
    m.to_dtype(DType::F32).unwrap();
    assert!(old[0].is_current() && old[0].is_same(&m.second.scale));
    m.to_dtype(DType::F64).unwrap();
    assert!(!old[0].is_current());
    assert!(m.first.scale.is_current() && m.first.scale.is_same(&m.second.scale));
    assert_eq!(
        (m.first.scale.dtype(), m.first.shift.dtype()),
        (DType::F64, DType::F64)
    );
    assert!(m.first.scale.requires_grad() && m.first.scale.is_leaf());
    assert_eq!(
        m.first.scale.grad().unwrap().to_vec::<f64>().unwrap(),
        [0.5]
    );
    assert_eq!(
        m.forward(&t(&[3.0], &[1]))
            .unwrap()
            .to_vec::<f64>()
            .unwrap(),
        [19.0]
    );
    let error = m.to_dtype(DType::I64).unwrap_err().to_string();
    assert!(error.contains("floating point or complex"), "{error}");

    let mut b = BatchNorm2d::new(3).unwrap();
    b.to_dtype(DType::F64).unwrap();
    assert_eq!(b.num_batches_tracked.as_ref().unwrap().dtype(), DType::I64);
    b.to_device(Device::Meta).unwrap();
    assert_eq!(b.weight.as_ref().unwrap().device(), Device::Meta);
    assert!(b.to_device(Device::Cuda(0)).is_err());
    assert_eq!(b.running_var.as_ref().unwrap().device(), Device::Meta);
}

#[test]
fn functional_call_stands_in_and_restores() {
    let mut m = tied();
    let w = t(&[3.0], &[1]).requires_grad_(true);
    let x = t(&[1.0], &[1]);
    let given = StateDict::from([
        ("second.scale", w.clone()),
        ("first.shift", t(&[0.0], &[1])),
    ]);
    let y = m.functional_call(&given, &x).unwrap();
    // Tied: both use 3. (1 * 3 + 0) * 3 + 5
    assert_eq!(values(&y), [14.0]);
    y.backward().unwrap();
    assert_eq!(values(&w.grad().unwrap()), [6.0]);
    assert!(!m.first.scale.has_grad());
    assert_eq!(values(&m.forward(&x).unwrap()), [11.0]);
    // Through what computed the stand-in, too.
    let half = t(&[6.0], &[1]).requires_grad_(true);
    let y = m
        .functional_call(
            &StateDict::from([("first.scale", half.mul(0.5).unwrap())]),
            &x,
        )
        .unwrap();
    y.backward().unwrap();
    assert_eq!(values(&half.grad().unwrap()), [0.5 * 7.0]);

    let error = m
        .functional_call(&StateDict::from([("nothing", w.clone())]), &x)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no parameter or buffer nothing"), "{error}");
    let error = m
        .functional_call(
            &StateDict::from([("first.scale", w.clone()), ("second.scale", half)]),
            &x,
        )
        .unwrap_err()
        .to_string();
    assert!(error.contains("tied"), "{error}");
    // A failing forward restores as well.
    let bad = StateDict::from([("first.scale", t(&[1.0, 2.0], &[2]))]);
    assert!(m.functional_call(&bad, &t(&[1.0, 2.0, 3.0], &[3])).is_err());
    assert_eq!(values(&m.forward(&x).unwrap()), [11.0]);
    let mut boxed: Box<dyn Module> = Box::new(m);
    assert_eq!(values(&boxed.functional_call(&given, &x).unwrap()), [14.0]);
}

#[test]
fn load_state_dict_lists_everything_and_changes_nothing() {
    let m = sequential![Affine::new(2.0, 1.0), Affine::new(3.0, 1.0)];
    let mut state = m.state_dict();
    state.remove("1.shift");
    state.insert("0.extra", t(&[1.0], &[1]));
    state.insert("0.scale", t(&[9.0], &[1]));
    state.insert("1.scale", t(&[9.0, 9.0], &[2]));
    let error = m.load_state_dict(&state).unwrap_err().to_string();
    for part in [
        "Sequential",
        "missing: 1.shift",
        "unexpected: 0.extra",
        "1.scale is [1] here and [2] in the state dict",
    ] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    assert_eq!(values(&m.state_dict()["0.scale"]), [2.0]);
    // Without strict, names may differ, shapes may not.
    let lax = || LoadStateDictOptions::default().strict(false);
    assert!(m.load_state_dict_with(&state, lax()).is_err());
    state.remove("1.scale");
    let keys = m.load_state_dict_with(&state, lax()).unwrap();
    assert_eq!(keys.missing_keys, ["1.scale", "1.shift"]);
    assert_eq!(keys.unexpected_keys, ["0.extra"]);
    assert_eq!(values(&m.state_dict()["0.scale"]), [9.0]);
    // The parameter is still the leaf it was.
    assert!(m.parameters()[0].is_leaf() && m.parameters()[0].requires_grad());
}

#[test]
fn files_round_trip_in_every_dtype() {
    let dir = std::env::temp_dir().join(format!("torsh-nn-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("all.safetensors");
    let mut state = StateDict::new();
    let x = t(&[1.0, 0.0, -2.0, 3.5, 4.0, 5.0], &[2, 3]);
    for dtype in [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::BF16,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::Bool,
        DType::C64,
    ] {
        state.insert(dtype.to_string(), x.to_dtype(dtype).unwrap());
    }
    state.insert("uint8", t(&[1.0, 255.0], &[2]).to_dtype(DType::U8).unwrap());
    state.insert("transposed", x.transpose(0, 1).unwrap());
    state.insert("number", t(&[7.0], &[]));
    state.insert("nothing", t(&[], &[0, 3]));
    state.save(&path).unwrap();
    let back = StateDict::load(&path).unwrap();
    assert_eq!(back.len(), state.len());
    for (name, tensor) in state.iter() {
        let other = &back[name];
        assert_eq!(
            (other.dtype(), other.shape()),
            (tensor.dtype(), tensor.shape()),
            "{name}"
        );
        assert_eq!(
            other.to_bytes().unwrap(),
            tensor.to_bytes().unwrap(),
            "{name}"
        );
    }
    // Nothing is left beside it, and an error leaves the old file.
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    state.insert("wide", x.to_dtype(DType::C128).unwrap());
    let error = state.save(&path).unwrap_err().to_string();
    assert!(
        error.contains("complex128") && error.contains("wide"),
        "{error}"
    );
    assert_eq!(StateDict::load(&path).unwrap().len(), back.len());

    // Missing, cut off, of another format.
    let error = StateDict::load(dir.join("none.safetensors"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("none.safetensors") && error.contains("(os error 2)"),
        "{error}"
    );
    let whole = std::fs::read(&path).unwrap();
    let broken = dir.join("broken.safetensors");
    for (bytes, why) in [
        (&whole[..whole.len() - 1], "is no whole safetensors file"),
        (&whole[..20], "is no whole safetensors file"),
        (
            &whole[..3],
            "this is no file of PyTorch, safetensors or NumPy",
        ),
        (
            b"PK\x03\x04 a zip file".as_slice(),
            "this is no whole zip archive",
        ),
    ] {
        std::fs::write(&broken, bytes).unwrap();
        let error = StateDict::load(&broken).unwrap_err().to_string();
        assert!(
            error.contains("broken.safetensors") && error.contains(why),
            "{error}"
        );
    }
    assert!(state.save(dir.join("no").join("such").join("dir")).is_err());

    let (a, b) = (Linear::new(3, 2), Linear::new(3, 2));
    let file = dir.join("linear.safetensors");
    a.save(&file).unwrap();
    b.load(&file).unwrap();
    assert_eq!(values(&a.weight), values(&b.weight));
    for extension in ["pt", "npz"] {
        let (other, file) = (Linear::new(3, 2), file.with_extension(extension));
        a.save(&file).unwrap();
        assert_eq!(
            std::fs::read(&file).unwrap()[..4],
            *b"PK\x03\x04",
            "{extension}"
        );
        other.load(&file).unwrap();
        assert_eq!(values(&a.weight), values(&other.weight));
    }
    let error = Linear::new(4, 2).load(&file).unwrap_err().to_string();
    assert!(
        error.contains("weight is [2, 4] here and [2, 3]"),
        "{error}"
    );
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn modes() {
    let m = sequential![
        Linear::new(2, 2),
        Dropout::new(0.5).unwrap(),
        sequential![Dropout::new(0.1).unwrap()]
    ];
    assert!(m.is_training());
    assert!(!m.eval().is_training());
    assert!(
        m.named_modules()
            .iter()
            .skip(1)
            .all(|(_, m)| !m.is_training())
    );
    m.train();
    assert!(m.modules().iter().all(|m| m.is_training()));
    let boxed: Box<dyn Module> = Box::new(m);
    boxed.set_training(false);
    assert!(!boxed.is_training());
}

#[test]
fn an_error_names_the_line_that_called_the_layer() {
    #[track_caller]
    fn refused(r: Result<Tensor>) {
        let e = r.expect_err("an error");
        let place = e.info().expect("an operation's").location;
        let here = Location::caller();
        assert_eq!((place.file(), place.line()), (here.file(), here.line()));
    }
    let x = t(&[0.0; 6], &[2, 3]);
    refused(Linear::new(2, 1).forward(&x));
    let norm = BatchNorm2d::new(3).unwrap();
    refused(norm.forward(&x));
    refused(sequential![ReLU::new(), Linear::new(2, 1)].forward(&x));
    let boxed: Box<dyn Module> = Box::new(Sequential::new().add(Linear::new(2, 1)));
    boxed.forward(&x).expect_err("an error");
    // Inside of a module's own hooks the line of its forward is the better one.
    struct_with_hooks(&x);

    fn struct_with_hooks(x: &Tensor) {
        #[derive(Module)]
        struct Net {
            fc: Linear,
            hooks: Hooks,
        }
        impl Module for Net {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| {
                    refused(self.fc.forward(x));
                    self.fc.forward(x)
                })
            }
        }
        let net = Net {
            fc: Linear::new(2, 1),
            hooks: Hooks::new(),
        };
        let before = line!();
        let e = net.forward(x).expect_err("an error");
        assert!(e.info().expect("an operation's").location.line() < before);
    }
}

#[test]
fn hooks_see_and_replace() {
    let m = sequential![Affine::new(2.0, 0.0), Tanh::new()];
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let first = m[0]
        .register_forward_hook(move |module, x, y| {
            assert_eq!(module.type_name(), "Affine");
            assert_eq!((values(x), values(y)), (vec![10.0], vec![20.0]));
            count.fetch_add(1, Ordering::Relaxed);
            y.mul(0.0).map(Some)
        })
        .unwrap();
    let pre = m
        .register_forward_pre_hook(|_, x| x.mul(10.0).map(Some))
        .unwrap();
    let x = t(&[1.0], &[1]);
    assert_eq!(values(&m.forward(&x).unwrap()), [0.0]);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    first.remove();
    pre.remove();
    assert_eq!(values(&m.forward(&x).unwrap()), [2f32.tanh()]);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    // An error in a hook is the call's.
    let bad = m[1]
        .register_forward_hook(|_, _, _| Err("stop".to_string().into()))
        .unwrap();
    assert_eq!(m.forward(&x).unwrap_err().to_string(), "stop");
    bad.remove();
    let error = tied()
        .register_forward_hook(|_, _, _| Ok(None))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("Tied has no hooks") && error.contains("hooks: Hooks"),
        "{error}"
    );
}

#[test]
fn walking_a_boxed_module() {
    let m: Box<dyn Module> = Box::new(sequential![
        Affine::new(2.0, 1.0),
        sequential![ReLU::new(), Affine::new(1.0, 0.0)]
    ]);
    let names: Vec<String> = m
        .named_modules()
        .into_iter()
        .map(|(n, m)| format!("{n}:{}", m.type_name()))
        .collect();
    assert_eq!(
        names,
        [
            ":Sequential",
            "0:Affine",
            "1:Sequential",
            "1.0:ReLU",
            "1.1:Affine"
        ]
    );
    assert_eq!(m.children().len(), 2);
    assert_eq!(m.named_children()[1].0, "1");
    assert_eq!(m.get_submodule("1.1").unwrap().parameters().len(), 1);
    assert!(m.get_submodule("2").is_err());
    assert_eq!(values(&m.get_parameter("0.scale").unwrap()), [2.0]);
    assert_eq!(m.named_buffers().len(), 2);
    assert_eq!(
        values(&m.forward(&t(&[1.0, -3.0], &[2])).unwrap()),
        [3.0, 0.0]
    );
    let out = t(&[0.0, 0.0], &[2]);
    m.forward_into(&t(&[1.0, -3.0], &[2]), &out).unwrap();
    assert_eq!(values(&out), [3.0, 0.0]);
    assert!(m.forward_into(&t(&[1.0], &[1]), &out).is_err());
    m.requires_grad_(false);
    assert!(!m.forward(&t(&[1.0], &[1])).unwrap().requires_grad());
    m.requires_grad_(true);
    assert!(m.forward(&t(&[1.0], &[1])).unwrap().requires_grad());
    assert_eq!(format!("{m:?}").lines().next(), Some("Sequential("));
}

#[test]
fn containers() {
    let layers: Sequential = vec![Affine::new(2.0, 0.0), Affine::new(3.0, 0.0)].into();
    assert_eq!(values(&layers.forward(&t(&[1.0], &[1])).unwrap()), [6.0]);
    let mixed = Sequential::from((Affine::new(2.0, 0.0), ReLU::new()));
    assert_eq!(values(&mixed.forward(&t(&[-1.0], &[1])).unwrap()), [0.0]);
    assert_eq!(
        values(&Sequential::new().forward(&t(&[-1.0], &[1])).unwrap()),
        [-1.0]
    );
    let list: ModuleList = (0..3).map(|i| Affine::new(i as f32, 0.0)).collect();
    assert_eq!(list.len(), 3);
    assert_eq!(list.state_dict().keys().last(), Some("2.shift"));
    assert_eq!(list.iter().count(), 3);
    assert!(
        list.forward(&t(&[1.0], &[1]))
            .unwrap_err()
            .to_string()
            .contains("Sequential")
    );
    let mut dict = ModuleDict::new();
    assert!(dict.insert("b", Affine::new(1.0, 0.0)).unwrap().is_none());
    assert!(dict.insert("a", ReLU::new()).unwrap().is_none());
    assert!(dict.insert("b", Affine::new(4.0, 0.0)).unwrap().is_some());
    assert!(dict.insert("x.y", ReLU::new()).is_err());
    assert_eq!(dict.keys().collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(values(&dict.state_dict()["b.scale"]), [4.0]);
    assert!(dict.get("a").is_some() && dict.get("c").is_none());
}

#[test]
fn a_loss_needs_two_tensors() {
    let loss = torsh_nn::CrossEntropyLoss::new();
    let x = t(&[1.0], &[1]);
    let error = Module::forward(&loss, &x).unwrap_err().to_string();
    assert!(error.contains("forward_with(&input, &target)"), "{error}");
    let (scores, target) = (t(&[0.0, 0.0], &[1, 2]), t(&[1.0], &[1]));
    let target = target.to_dtype(DType::I64).unwrap();
    let called = loss.forward(&scores, &target).unwrap();
    assert!((called.item::<f32>().unwrap() - 2f32.ln()).abs() < 1e-6);
}

#[test]
fn a_parameter_of_integers_is_refused() {
    let error = Parameter::with_requires_grad(t(&[1.0], &[1]).to_dtype(DType::I64).unwrap(), true)
        .unwrap_err();
    assert!(error.to_string().contains("floating-point"), "{error}");
    assert!(
        !Parameter::with_requires_grad(t(&[1.0], &[1]).to_dtype(DType::I64).unwrap(), false)
            .unwrap()
            .requires_grad()
    );
}

#[test]
fn buffers_that_are_not_saved() {
    #[derive(Module)]
    struct Mask {
        mask: Buffer,
    }
    impl Module for Mask {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            x.mul(&self.mask)
        }
    }
    let m = Mask {
        mask: Buffer::non_persistent(t(&[2.0], &[1])),
    };
    assert!(m.state_dict().is_empty());
    assert_eq!(m.buffers().len(), 1);
    m.load_state_dict(&StateDict::new()).unwrap();
    assert_eq!(values(&m.forward(&t(&[2.0], &[1])).unwrap()), [4.0]);
}

/// Two layers of one weight.
fn tied_pair() -> Result<Sequential> {
    let first = Linear::builder(2, 2).bias(false).build()?;
    let mut second = Linear::builder(2, 2).bias(false).build()?;
    second.weight = first.weight.clone();
    Ok(Sequential::new().add(first).add(second))
}

#[test]
fn what_a_state_dict_has_decides_whether_weights_stay_tied() -> Result<()> {
    use torsh_nn::module::{tied_names, untied_by};
    use torsh_tensor::tensor;
    let (a, b) = (
        tensor![[1.0, 2.0], [3.0, 4.0]],
        tensor![[5.0, 6.0], [7.0, 8.0]],
    );
    // Copies, for what is assigned becomes the parameter.
    let state = |first: &Tensor, second: &Tensor| -> Result<StateDict> {
        let (first, second) = (first.copy()?, second.copy()?);
        Ok(StateDict::from([("0.weight", first), ("1.weight", second)]))
    };
    // Equal tensors, of other memory and of another dtype, NaN included.
    let nan = tensor![[f32::NAN, 2.0], [3.0, 4.0]];
    for equal in [
        state(&a, &a)?,
        state(&a, &a.to_dtype(DType::F64)?)?,
        state(&nan, &nan)?,
    ] {
        let mut net = tied_pair()?;
        assert!(untied_by(&net, &equal)?.is_empty());
        net.load_state_dict(&equal)?;
        net.assign_state_dict(&equal)?;
        assert_eq!(tied_names(&net), [["0.weight", "1.weight"]]);
        assert_eq!(net.state_dict()["1.weight"].i((0, 1))?.item::<f32>()?, 2.0);
    }
    // Different ones.
    for different in [state(&a, &b)?, state(&a.to_dtype(DType::F64)?, &b)?] {
        let mut net = tied_pair()?;
        let before = net.state_dict()["0.weight"].copy()?;
        let error = net.load_state_dict(&different).err().map(|e| e.to_string());
        let names =
            |e: &String| e.contains("0.weight and 1.weight") && e.contains("assign_state_dict");
        assert!(error.as_ref().is_some_and(names), "{error:?}");
        assert_eq!(net.state_dict()["1.weight"], before);
        net.assign_state_dict(&different)?;
        assert!(tied_names(&net).is_empty());
        let now = net.state_dict();
        assert_eq!((&now["0.weight"], &now["1.weight"]), (&a, &b));
        assert!(net.parameters().iter().all(|p| p.requires_grad()));
        net.load_state_dict(&state(&b, &a)?)?;
        assert_eq!(net.state_dict()["0.weight"], b);
    }
    // A refused state dict leaves them tied.
    let mut net = tied_pair()?;
    assert!(
        net.assign_state_dict(&StateDict::from([("0.weight", a)]))
            .is_err()
    );
    assert_eq!(tied_names(&net).len(), 1);
    assert!(torsh_nn::module::untie(&mut net, &["2.weight"]).is_err());
    Ok(())
}
