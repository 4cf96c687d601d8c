// Command train makes the model "digits" that ships in package models: a small
// convolutional network for 28×28 digits, trained on the 60,000 images of MNIST
// with a fixed seed. Beside the model it writes the images that ship with it,
// compressed: the first training images for calibration, and the first test
// images with their labels for the accuracy line:
//
//	go run ./models/train -o models
//
// It takes about two minutes on two cores.
package main

import (
	"compress/gzip"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"situ/internal/mnist"
)

const (
	seed              = 28
	batch             = 64
	testImages        = 500 // shipped for the accuracy line of situ compare
	calibrationImages = 32  // shipped for quantisation, from the training images
)

func main() {
	log.SetFlags(0)
	dir := flag.String("o", "models", "folder to write digits.onnx and its images to")
	epochs := flag.Int("epochs", 8, "passes over the training images")
	flag.Parse()
	if err := run(*dir, *epochs); err != nil {
		log.Fatal(err)
	}
}

func run(dir string, epochs int) error {
	train, test, err := mnist.Load()
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, seed))
	n := newNet(rng)
	workers := []*worker{newWorker(n), newWorker(n)} // a fixed number, so that sums are reproducible
	order := rng.Perm(len(train.Images))
	steps, total := 0, epochs*(len(order)/batch)
	for e := range epochs {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		var loss float64
		for at := 0; at+batch <= len(order); at += batch {
			loss += trainBatch(n, workers, train, order[at:at+batch])
			steps++
			rate := 0.002 * (1 - float64(steps)/float64(total+1))
			for _, p := range n.params() {
				p.adam(steps, rate)
			}
		}
		fmt.Printf("epoch %d: loss %.4f, top-1 on the test images %.2f %%\n", e+1, loss/float64(len(order)), 100*accuracy(workers, test))
	}
	if err := os.WriteFile(filepath.Join(dir, "digits.onnx"), export(n), 0o644); err != nil {
		return err
	}
	if err := writeGzip(filepath.Join(dir, "digits-calibration.gz"), join(train.Images[:calibrationImages])); err != nil {
		return err
	}
	if err := writeGzip(filepath.Join(dir, "digits-images.gz"), join(test.Images[:testImages])); err != nil {
		return err
	}
	return writeGzip(filepath.Join(dir, "digits-labels.gz"), test.Labels[:testImages])
}

func join(images [][]byte) []byte {
	var b []byte
	for _, img := range images {
		b = append(b, img...)
	}
	return b
}

// trainBatch leaves the mean gradient of a batch in the parameters and returns
// the summed loss.
func trainBatch(n *net, workers []*worker, set *mnist.Set, batch []int) float64 {
	losses := make([]float64, len(workers))
	var wg sync.WaitGroup
	for k, w := range workers {
		wg.Go(func() {
			for i := k; i < len(batch); i += len(workers) {
				losses[k] += w.train(pixels(set.Images[batch[i]]), int(set.Labels[batch[i]]))
			}
		})
	}
	wg.Wait()
	var loss float64
	for k, w := range workers {
		loss += losses[k]
		for i, p := range n.params() {
			for j, g := range w.grads[i] {
				p.g[j] += g / float32(len(batch))
			}
			clear(w.grads[i])
		}
	}
	return loss
}

func accuracy(workers []*worker, set *mnist.Set) float64 {
	right := make([]int, len(workers))
	var wg sync.WaitGroup
	for k, w := range workers {
		wg.Go(func() {
			for i := k; i < len(set.Images); i += len(workers) {
				_, z := w.logits(pixels(set.Images[i]))
				best := 0
				for j := range z {
					if z[j] > z[best] {
						best = j
					}
				}
				if best == int(set.Labels[i]) {
					right[k]++
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, r := range right {
		sum += r
	}
	return float64(sum) / float64(len(set.Images))
}

// pixels scales bytes to 0..1, the model's input range.
func pixels(img []byte) []float32 {
	x := make([]float32, len(img))
	for i, v := range img {
		x[i] = float32(v) / 255
	}
	return x
}

func writeGzip(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(data); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}
