//! The derive and the container implementations together, on parameters and modules that carry
//! a number instead of tensors.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

use module::{
    Buffer, FieldMut, FieldRef, Module, ModuleField, Momentum, Parameter, Training, walk, walk_mut,
};

#[allow(dead_code)]
#[path = "../src/module/fields.rs"]
mod fields;

/// Stands in for the crate's own `module`, around the real `fields.rs`.
mod module {
    pub use crate::fields::*;
    pub use torsh_macros::Module;

    #[derive(Clone, Debug, PartialEq)]
    pub struct Parameter(pub f32);

    #[derive(Clone, Debug, PartialEq)]
    pub struct Buffer(pub f32);

    #[derive(Debug)]
    pub struct Hooks;

    #[derive(Debug)]
    pub struct GradientCheckpointing;

    pub trait Module: ModuleFields + Send + Sync + 'static {
        fn forward(&self, x: f32) -> f32;
    }
}

#[derive(Module)]
#[module(crate = "crate::module")]
struct Linear {
    weight: Parameter,
    bias: Option<Parameter>,
}

impl Linear {
    fn new(weight: f32, bias: Option<f32>) -> Self {
        Linear {
            weight: Parameter(weight),
            bias: bias.map(Parameter),
        }
    }
}

impl Module for Linear {
    fn forward(&self, x: f32) -> f32 {
        self.weight.0 * x + self.bias.as_ref().map_or(0.0, |b| b.0)
    }
}

#[derive(Module, Default)]
#[module(crate = "crate::module")]
struct Dropout {
    training: Training,
}

impl Module for Dropout {
    fn forward(&self, x: f32) -> f32 {
        if self.training.get() { 0.0 } else { x }
    }
}

#[derive(Module)]
#[module(crate = "crate::module")]
struct ReLU;

impl Module for ReLU {
    fn forward(&self, x: f32) -> f32 {
        x.max(0.0)
    }
}

#[derive(Module)]
#[module(crate = "crate::module")]
enum Act {
    Identity,
    Relu(ReLU),
    Prelu {
        weight: Parameter,
        #[module(skip)]
        _n: usize,
    },
}

impl Module for Act {
    fn forward(&self, x: f32) -> f32 {
        match self {
            Act::Identity => x,
            Act::Relu(m) => m.forward(x),
            Act::Prelu { weight, .. } => x.max(x * weight.0),
        }
    }
}

/// Every kind of field, the children declared ahead of the parameters.
#[derive(Module)]
#[module(crate = "crate::module")]
struct Net {
    fc: Linear,
    blocks: Vec<Linear>,
    any: Vec<Box<dyn Module>>,
    heads: HashMap<String, Linear>,
    norms: BTreeMap<String, Parameter>,
    pair: (Linear, Buffer),
    twice: [Parameter; 2],
    act: Act,
    mean: Buffer,
    scale: Parameter,
    none: Option<Box<dyn Module>>,
    #[module(rename = "weight_ih_l0")]
    w: Parameter,
    drop: Dropout,
    #[module(skip)]
    n: usize,
}

impl Module for Net {
    fn forward(&self, x: f32) -> f32 {
        self.fc.forward(x) * self.n as f32
    }
}

fn net() -> Net {
    Net {
        fc: Linear::new(1.0, Some(2.0)),
        blocks: vec![Linear::new(3.0, None), Linear::new(4.0, Some(5.0))],
        any: vec![Box::new(ReLU), Box::new(Linear::new(6.0, None))],
        heads: ["c", "a", "b"]
            .map(|k| (k.to_string(), Linear::new(7.0, None)))
            .into(),
        norms: ["z", "y"].map(|k| (k.to_string(), Parameter(8.0))).into(),
        pair: (Linear::new(9.0, None), Buffer(10.0)),
        twice: [Parameter(11.0), Parameter(12.0)],
        act: Act::Prelu {
            weight: Parameter(13.0),
            _n: 0,
        },
        mean: Buffer(14.0),
        scale: Parameter(15.0),
        none: None,
        w: Parameter(16.0),
        drop: Dropout::default(),
        n: 2,
    }
}

/// `name=value` of parameters and buffers, `name:Type` of modules, `name?mode` of flags.
fn show(name: &str, field: FieldRef<'_>) -> String {
    match field {
        FieldRef::Parameter(p) => format!("{name}={}", p.0),
        FieldRef::Buffer(b) => format!("{name}={}", b.0),
        FieldRef::Module(m) => format!("{name}:{}", m.type_name()),
        FieldRef::Training(t) => format!("{name}?{}", t.get()),
        FieldRef::Momentum(m) => format!("{name}~{:?}", m.get()),
        FieldRef::GradientCheckpointing(c) => format!("{name}%{c:?}"),
        FieldRef::Hooks(h) => format!("{name}!{h:?}"),
    }
}

fn level(module: &dyn Module) -> Vec<String> {
    let mut out = Vec::new();
    module.visit_fields(&mut |name, field| out.push(show(name, field)));
    out
}

fn tree<M: Module + ?Sized>(module: &M) -> Vec<String> {
    let mut out = Vec::new();
    walk(module, &mut |name, field| out.push(show(name, field)));
    out
}

#[test]
fn one_level_in_declaration_order() {
    assert_eq!(
        level(&net()),
        [
            "fc:Linear",
            "blocks.0:Linear",
            "blocks.1:Linear",
            "any.0:ReLU",
            "any.1:Linear",
            "heads.a:Linear",
            "heads.b:Linear",
            "heads.c:Linear",
            "norms.y=8",
            "norms.z=8",
            "pair.0:Linear",
            "pair.1=10",
            "twice.0=11",
            "twice.1=12",
            "act:Act",
            "mean=14",
            "scale=15",
            "weight_ih_l0=16",
            "drop:Dropout",
        ]
    );
}

#[test]
fn the_tree_in_the_order_of_a_state_dict() {
    let expected = [
        "scale=15",
        "weight_ih_l0=16",
        "mean=14",
        "fc:Linear",
        "fc.weight=1",
        "fc.bias=2",
        "blocks.0:Linear",
        "blocks.0.weight=3",
        "blocks.1:Linear",
        "blocks.1.weight=4",
        "blocks.1.bias=5",
        "any.0:ReLU",
        "any.1:Linear",
        "any.1.weight=6",
        "heads.a:Linear",
        "heads.a.weight=7",
        "heads.b:Linear",
        "heads.b.weight=7",
        "heads.c:Linear",
        "heads.c.weight=7",
        "norms.y=8",
        "norms.z=8",
        "pair.0:Linear",
        "pair.0.weight=9",
        "pair.1=10",
        "twice.0=11",
        "twice.1=12",
        "act:Act",
        "act.weight=13",
        "drop:Dropout",
        "drop.training?true",
    ];
    assert_eq!(tree(&net()), expected);
    let boxed: Box<dyn Module> = Box::new(net());
    assert_eq!(tree(&*boxed), expected);

    let mut names = Vec::new();
    walk_mut(&mut net(), &mut |name, field| {
        // The module in it comes next.
        if let FieldMut::Boxed(_) = field {
            return;
        }
        names.push(show(
            name,
            match &field {
                FieldMut::Parameter(p) => FieldRef::Parameter(p),
                FieldMut::Buffer(b) => FieldRef::Buffer(b),
                FieldMut::Module(m) => FieldRef::Module(&**m),
                FieldMut::Training(t) => FieldRef::Training(t),
                FieldMut::Momentum(m) => FieldRef::Momentum(m),
                FieldMut::GradientCheckpointing(c) => FieldRef::GradientCheckpointing(c),
                FieldMut::Hooks(h) => FieldRef::Hooks(h),
                FieldMut::Boxed(_) => unreachable!("it is passed over above"),
            },
        ));
    });
    assert_eq!(names, expected);
}

#[test]
fn what_is_visited_outlives_the_visitor() {
    let net = net();
    let mut parameters: Vec<(String, &Parameter)> = Vec::new();
    walk(&net, &mut |name, field| {
        if let FieldRef::Parameter(p) = field {
            parameters.push((name.to_string(), p));
        }
    });
    assert_eq!(parameters.len(), 17);
    assert!(std::ptr::eq(parameters[0].1, &net.scale));
    assert_eq!(parameters[2], ("fc.weight".to_string(), &net.fc.weight));
}

#[test]
fn the_exclusive_walk_replaces_fields() {
    let mut net = net();
    assert_eq!(net.forward(1.0), 6.0);
    walk_mut(&mut net, &mut |_, field| match field {
        FieldMut::Parameter(p) => *p = Parameter(p.0 * 10.0),
        FieldMut::Buffer(b) => *b = Buffer(-b.0),
        _ => {}
    });
    assert_eq!(net.fc.weight, Parameter(10.0));
    assert_eq!(net.forward(1.0), 60.0);
    assert_eq!(net.any[1].forward(1.0), 60.0);
    assert_eq!(net.heads["c"].weight, Parameter(70.0));
    assert_eq!(net.norms["y"], Parameter(80.0));
    assert_eq!(net.pair.1, Buffer(-10.0));
    assert_eq!(net.twice, [Parameter(110.0), Parameter(120.0)]);
    assert_eq!(net.act.forward(-1.0), -1.0);
    assert_eq!(net.act.forward(1.0), 130.0);
}

#[test]
fn a_shared_walk_switches_the_mode() {
    let modules: (Dropout, Vec<Box<dyn Module>>) =
        (Dropout::default(), vec![Box::new(Dropout::default())]);
    let eval = |training: bool| {
        modules.visit_field("m", &mut |_, field| {
            if let FieldRef::Module(m) = field {
                walk(m, &mut |_, field| {
                    if let FieldRef::Training(t) = field {
                        t.set(training);
                    }
                });
            }
        });
    };
    assert_eq!(modules.1[0].forward(3.0), 0.0);
    eval(false);
    assert_eq!(modules.0.forward(3.0), 3.0);
    assert_eq!(modules.1[0].forward(3.0), 3.0);
    eval(true);
    assert_eq!(modules.0.forward(3.0), 0.0);
}

#[test]
fn a_cloned_flag_is_its_own() {
    let a = Training::default();
    let b = a.clone();
    b.set(false);
    assert!(a.get());
    assert!(!b.get());
    assert!(!b.clone().get());
    assert_eq!(format!("{b:?}"), "Training(false)");
}

#[test]
fn a_cloned_momentum_is_its_own() {
    let a = Momentum::new(Some(0.1));
    let b = a.clone();
    b.set(None);
    assert_eq!(
        (a.get(), b.get(), Momentum::default().get()),
        (Some(0.1), None, None)
    );
    assert_eq!(format!("{a:?}"), "Momentum(Some(0.1))");
}

#[test]
fn enums_show_the_variant_they_hold() {
    assert_eq!(tree(&Act::Identity), [""; 0]);
    assert_eq!(tree(&Act::Relu(ReLU)), ["0:ReLU"]);
    assert_eq!(Act::Relu(ReLU).forward(-2.0), 0.0);
    assert_eq!(Act::Identity.forward(-2.0), -2.0);
}

#[derive(Module)]
#[module(crate = "crate::module")]
struct Residual<M> {
    inner: M,
}

impl<M: Module> Module for Residual<M> {
    fn forward(&self, x: f32) -> f32 {
        x + self.inner.forward(x)
    }
}

/// A parameter that is no module itself.
trait Config: Send + Sync + 'static {
    const GAIN: f32;
    type Inner: Module;
}

#[derive(Module)]
#[module(crate = "crate::module")]
struct Gain<C: Config> {
    scale: Parameter,
    #[module(skip)]
    _config: PhantomData<C>,
}

impl<C: Config> Module for Gain<C> {
    fn forward(&self, x: f32) -> f32 {
        x * C::GAIN * self.scale.0
    }
}

#[derive(Module)]
#[module(crate = "crate::module")]
struct Stack<C, const N: usize>
where
    C: Config,
{
    gains: [Gain<C>; N],
    inner: C::Inner,
    next: Option<Box<Stack<C, N>>>,
}

impl<C: Config, const N: usize> Module for Stack<C, N> {
    fn forward(&self, x: f32) -> f32 {
        let x = self.gains.iter().fold(x, |x, g| g.forward(x));
        let x = self.inner.forward(x);
        self.next.as_ref().map_or(x, |next| next.forward(x))
    }
}

struct Loud;

impl Config for Loud {
    const GAIN: f32 = 2.0;
    type Inner = Residual<Box<Linear>>;
}

impl Module for Box<Linear> {
    fn forward(&self, x: f32) -> f32 {
        (**self).forward(x)
    }
}

fn stack(next: Option<Stack<Loud, 2>>) -> Stack<Loud, 2> {
    let gain = |scale| Gain {
        scale: Parameter(scale),
        _config: PhantomData,
    };
    Stack {
        gains: [gain(1.0), gain(3.0)],
        inner: Residual {
            inner: Box::new(Linear::new(0.5, None)),
        },
        next: next.map(Box::new),
    }
}

#[test]
fn generic_and_recursive_modules() {
    let stack = stack(Some(stack(None)));
    assert_eq!(
        tree(&stack),
        [
            "gains.0:Gain",
            "gains.0.scale=1",
            "gains.1:Gain",
            "gains.1.scale=3",
            "inner:Residual",
            "inner.inner:Linear",
            "inner.inner.weight=0.5",
            "next:Stack",
            "next.gains.0:Gain",
            "next.gains.0.scale=1",
            "next.gains.1:Gain",
            "next.gains.1.scale=3",
            "next.inner:Residual",
            "next.inner.inner:Linear",
            "next.inner.inner.weight=0.5",
        ]
    );
    assert_eq!(stack.forward(1.0), 18.0 * 18.0);
}

/// The derive inside a macro, where the field's type has the macro's hygiene.
macro_rules! wrapper {
    ($name:ident, $field:ident) => {
        #[derive(Module)]
        #[module(crate = "crate::module")]
        struct $name {
            $field: Linear,
            scale: Parameter,
        }

        impl Module for $name {
            fn forward(&self, x: f32) -> f32 {
                self.$field.forward(x) * self.scale.0
            }
        }
    };
}

wrapper!(Wrapped, r#in);

#[test]
fn modules_declared_by_a_macro() {
    let module = Wrapped {
        r#in: Linear::new(2.0, None),
        scale: Parameter(3.0),
    };
    assert_eq!(tree(&module), ["scale=3", "in:Linear", "in.weight=2"]);
    assert_eq!(module.forward(1.0), 6.0);
}
