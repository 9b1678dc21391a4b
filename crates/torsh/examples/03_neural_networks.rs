//! Tutorial 3: a network that classifies irises.
//!
//! ```text
//! cargo run -p torsh --example 03_neural_networks
//! ```

use torsh::data::csv::CsvReader;
use torsh::prelude::*;

/// A module is a struct of modules: `derive(Module)` finds their parameters.
#[derive(Module)]
struct Net {
    hidden: Linear,
    dropout: Dropout,
    out: Linear,
}

impl Net {
    fn new() -> Result<Net> {
        Ok(Net {
            hidden: Linear::new(4, 32),
            dropout: Dropout::new(0.1)?,
            out: Linear::new(32, 3),
        })
    }
}

impl Module for Net {
    /// Four lengths of each flower `[n, 4]` in, a score for each species `[n, 3]` out.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = F::relu(&self.hidden.forward(x)?)?;
        self.out.forward(&self.dropout.forward(&x)?)
    }
}

/// The lengths, and the species of each flower.
fn flowers() -> Result<(Tensor, Tensor)> {
    let bytes = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/iris/iris.csv"
    ));
    let table = CsvReader::new().read_bytes(bytes)?.features;
    let x = table.narrow(1, 0, 4)?.to_dtype(DType::F32)?;
    let y = table.select(1, 4)?.to_dtype(DType::I64)?;
    // Each column with mean 0 and standard deviation 1.
    let x = x.sub(x.mean_dim(0, true)?)?.div(x.std_dim(0, true)?)?;
    Ok((x, y))
}

/// The part of the flowers whose species is right.
fn accuracy(net: &Net, x: &Tensor, y: &Tensor) -> Result<f64> {
    net.eval();
    no_grad(|| {
        let right = net.forward(x)?.argmax_dim(1, false)?.eq(y)?.sum()?;
        Ok(right.item::<f64>()? / y.numel() as f64)
    })
}

fn main() -> Result<()> {
    manual_seed(0);
    let (x, y) = flowers()?;
    println!("{} flowers of {} lengths", x.size(0)?, x.size(1)?);
    // Every fifth is held out.
    let place = arange(0, x.size(0)? as i64, 1);
    let held_out = place.remainder(5)?.eq(0)?;
    let train = held_out.logical_not()?;
    let (test_x, test_y) = (x.i(&held_out)?, y.i(&held_out)?);
    let data = TensorDataset::new(x.i(&train)?, y.i(&train)?);

    let net = Net::new()?;
    println!("{}", torsh::nn::summary(&net, &[16, 4])?);
    let loader = DataLoader::builder(data)
        .batch_size(16)
        .shuffle(true)
        .seed(0)
        .build()?;
    let optimizer = Adam::new(net.parameters(), 1e-2)?;
    let schedule = StepLR::new(&optimizer, 20, 0.3)?;
    for epoch in 1..=40 {
        net.train();
        let (mut sum, mut batches) = (0.0, 0.0);
        for (x, y) in &loader {
            optimizer.zero_grad();
            let loss = F::cross_entropy(&net.forward(&x)?, &y)?;
            loss.backward()?;
            optimizer.step()?;
            sum += loss.item::<f64>()?;
            batches += 1.0;
        }
        schedule.step()?;
        if epoch % 10 == 0 {
            println!("epoch {epoch:2}: loss {:.4}", sum / batches);
        }
    }
    let score = accuracy(&net, &test_x, &test_y)?;
    println!("held-out accuracy {:.1} %", 100.0 * score);
    assert!(score >= 0.9);

    // Weights are safetensors files, which PyTorch reads too.
    let path = std::env::temp_dir().join(format!("torsh_iris_{}.safetensors", std::process::id()));
    net.save(&path)?;
    let again = Net::new()?;
    again.load(&path)?;
    std::fs::remove_file(&path)?;
    assert_eq!(accuracy(&again, &test_x, &test_y)?, score);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
