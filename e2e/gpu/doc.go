// Package gpu compares what rt reads from NVIDIA's GPUs with nvidia-smi, on a machine that has one.
//
// The tests need the build tag gpu. contrib/test/gpu puts the test program, the programs of rt and a load for a GPU
// into build/gpu, and runs them. The folder can be copied to a machine without Go, compiler and network. The package
// simulated runs the same test program with a simulated GPU.
package gpu
