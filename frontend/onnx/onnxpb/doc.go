// Package onnxpb holds the protobuf messages of the ONNX file format.
//
// onnx.proto states the messages with the standard's field numbers;
// onnx.pb.go is generated from it by protoc and protoc-gen-go v1.36.12:
//
//	go generate ./frontend/onnx/onnxpb
//
// To follow a newer version of the standard, add its fields to onnx.proto with
// their numbers and generate again. Nothing else belongs in this package.
package onnxpb

//go:generate protoc --proto_path=. --go_out=. --go_opt=paths=source_relative onnx.proto
