//! ModelSummary: torchinfo's figures of a network.

use torsh_nn::{
    BatchNorm2d, Conv2d, Flatten, Linear, MaxPool2d, Module, ModuleExt, ReLU, Sequential, summary,
};
use torsh_tensor::{Device, Result, Tensor};

#[derive(Module)]
struct Block {
    conv: Conv2d,
    norm: BatchNorm2d,
    act: ReLU,
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.act
            .forward(&self.norm.forward(&self.conv.forward(x)?)?.add(x)?)
    }
}

#[derive(Module)]
struct Net {
    stem: Conv2d,
    blocks: Sequential,
    pool: MaxPool2d,
    flat: Flatten,
    fc: Linear,
}

impl Module for Net {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.blocks.forward(&self.stem.forward(x)?)?;
        self.fc
            .forward(&self.flat.forward(&self.pool.forward(&x)?)?)
    }
}

fn net(device: Device) -> Result<Net> {
    let block = || -> Result<Block> {
        Ok(Block {
            conv: Conv2d::builder(16, 16, 3)
                .padding(1)
                .bias(false)
                .device(device)
                .build()?,
            norm: BatchNorm2d::builder(16).device(device).build()?,
            act: ReLU::new(),
        })
    };
    Ok(Net {
        stem: Conv2d::builder(3, 16, 3)
            .stride(2)
            .padding(1)
            .device(device)
            .build()?,
        blocks: Sequential::new().add(block()?).add(block()?),
        pool: MaxPool2d::new(2)?,
        flat: Flatten::new(),
        fc: Linear::builder(256, 10).device(device).build()?,
    })
}

/// The figures are torchinfo's (1.8.0) for this network and input.
#[test]
fn figures_are_torchinfos() -> Result<()> {
    for device in [Device::Cpu, Device::Meta] {
        let net = net(device)?;
        net.blocks.eval();
        let s = summary(&net, [4, 3, 16, 16])?;
        assert_eq!((s.total_params, s.trainable_params), (7690, 7690));
        assert_eq!(s.total_mult_adds, 1_304_872);
        // torchinfo adds the 64 bytes of a Python object.
        assert_eq!(s.input_bytes, 12_352 - 64);
        assert_eq!(s.forward_backward_bytes, 164_160);
        assert_eq!(s.params_bytes, 30_760);
        let rows: Vec<_> = s
            .layers
            .iter()
            .map(|l| (l.name.as_str(), l.depth, l.params, l.mult_adds))
            .collect();
        assert_eq!(
            rows,
            [
                ("", 0, 7690, 1_304_872),
                ("stem", 1, 448, 114_688),
                ("blocks", 1, 4672, 1_179_904),
                ("blocks.0", 2, 2336, 589_952),
                ("blocks.0.conv", 3, 2304, 589_824),
                ("blocks.0.norm", 3, 32, 128),
                ("blocks.0.act", 3, 0, 0),
                ("blocks.1", 2, 2336, 589_952),
                ("blocks.1.conv", 3, 2304, 589_824),
                ("blocks.1.norm", 3, 32, 128),
                ("blocks.1.act", 3, 0, 0),
                ("pool", 1, 0, 0),
                ("flat", 1, 0, 0),
                ("fc", 1, 2570, 10_280),
            ]
        );
        let sizes = |name: &str| {
            let l = s.layer(name).unwrap();
            (
                l.input_size.clone().unwrap(),
                l.output_size.clone().unwrap(),
            )
        };
        assert_eq!(sizes("stem"), (vec![4, 3, 16, 16], vec![4, 16, 8, 8]));
        assert_eq!(
            sizes("blocks.1.norm"),
            (vec![4, 16, 8, 8], vec![4, 16, 8, 8])
        );
        assert_eq!(sizes("pool"), (vec![4, 16, 8, 8], vec![4, 16, 4, 4]));
        assert_eq!(sizes("fc"), (vec![4, 256], vec![4, 10]));
        // Blocks of one's own without hooks have no shapes.
        assert_eq!(s.layer("blocks.0").unwrap().output_size, None);
        // The modes, the statistics and the hooks are as before.
        assert!(net.stem.is_training() && !net.blocks.is_training());
        if device == Device::Cpu {
            let batches = net.buffers().pop().unwrap();
            assert_eq!(batches.item::<i64>()?, 0);
        }
    }
    Ok(())
}

#[test]
fn the_table_is_a_tree() -> Result<()> {
    let net = net(Device::Meta)?;
    net.fc.requires_grad_(false);
    let text = summary(&net, [4, 3, 16, 16])?.to_string();
    let has = |line: &str| assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    let row = |name: &str, from: &str, to: &str, params: &str, adds: &str| {
        has(&format!(
            "{name:<30}  {from:<14}  {to:<13}  {params:<7}  {adds}"
        ));
    };
    row(
        "├─Conv2d (stem)",
        "[4, 3, 16, 16]",
        "[4, 16, 8, 8]",
        "448",
        "114,688",
    );
    row(
        "│    │    └─Conv2d (conv)",
        "[4, 16, 8, 8]",
        "[4, 16, 8, 8]",
        "2,304",
        "589,824",
    );
    row("├─Linear (fc)", "[4, 256]", "[4, 10]", "2,570", "10,280");
    has("Total params: 7,690");
    has("Trainable params: 5,120");
    has("Non-trainable params: 2,570");
    has("Total mult-adds (M): 1.30");
    has("Forward/backward pass size (MB): 0.16");
    has("Params size (MB): 0.03");
    Ok(())
}

#[test]
fn a_layer_called_twice_counts_twice_and_its_parameters_once() -> Result<()> {
    #[derive(Module)]
    struct Twice {
        fc: Linear,
    }
    impl Module for Twice {
        fn forward(&self, x: &Tensor) -> Result<Tensor> {
            self.fc.forward(&self.fc.forward(x)?)
        }
    }
    let s = summary(
        &Twice {
            fc: Linear::new(3, 3),
        },
        [5, 3],
    )?;
    assert_eq!((s.total_params, s.total_mult_adds), (12, 2 * 5 * 12));
    assert_eq!(s.layer("fc").unwrap().calls, 2);
    let text = summary(&Linear::new(3, 2), [5, 4]).unwrap_err().to_string();
    assert!(text.contains("linear") || text.contains("matmul"), "{text}");
    Ok(())
}
