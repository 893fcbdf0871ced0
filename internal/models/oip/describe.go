package oip

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// calls are the methods of the service: the first word of their messages. The last is a
// bidirectional stream.
var calls = []struct{ name, in, out string }{
	{"ServerLive", "ServerLiveRequest", "ServerLiveResponse"},
	{"ServerReady", "ServerReadyRequest", "ServerReadyResponse"},
	{"ModelReady", "ModelReadyRequest", "ModelReadyResponse"},
	{"ServerMetadata", "ServerMetadataRequest", "ServerMetadataResponse"},
	{"ModelMetadata", "ModelMetadataRequest", "ModelMetadataResponse"},
	{"ModelInfer", "ModelInferRequest", "ModelInferResponse"},
	{"ModelStreamInfer", "ModelInferRequest", "ModelStreamInferResponse"},
}

// messages are the messages of the protocol, one per line: its name, and its fields by number as
// type. A field is []type if it is repeated, {}type if it is a map from text, and ?type if it is
// one of a choice.
const messages = `
ServerLiveRequest
ServerLiveResponse live=1:bool
ServerReadyRequest
ServerReadyResponse ready=1:bool
ModelReadyRequest name=1:string version=2:string
ModelReadyResponse ready=1:bool
ServerMetadataRequest
ServerMetadataResponse name=1:string version=2:string extensions=3:[]string
ModelMetadataRequest name=1:string version=2:string
ModelMetadataResponse name=1:string versions=2:[]string platform=3:string inputs=4:[]ModelMetadataResponse.TensorMetadata outputs=5:[]ModelMetadataResponse.TensorMetadata
ModelMetadataResponse.TensorMetadata name=1:string datatype=2:string shape=3:[]int64
ModelInferRequest model_name=1:string model_version=2:string id=3:string parameters=4:{}InferParameter inputs=5:[]ModelInferRequest.InferInputTensor outputs=6:[]ModelInferRequest.InferRequestedOutputTensor raw_input_contents=7:[]bytes
ModelInferRequest.InferInputTensor name=1:string datatype=2:string shape=3:[]int64 parameters=4:{}InferParameter contents=5:InferTensorContents
ModelInferRequest.InferRequestedOutputTensor name=1:string parameters=2:{}InferParameter
ModelInferResponse model_name=1:string model_version=2:string id=3:string parameters=4:{}InferParameter outputs=5:[]ModelInferResponse.InferOutputTensor raw_output_contents=6:[]bytes
ModelInferResponse.InferOutputTensor name=1:string datatype=2:string shape=3:[]int64 parameters=4:{}InferParameter contents=5:InferTensorContents
ModelStreamInferResponse error_message=1:string infer_response=2:ModelInferResponse
InferParameter bool_param=1:?bool int64_param=2:?int64 string_param=3:?string double_param=4:?double uint64_param=5:?uint64
InferTensorContents bool_contents=1:[]bool int_contents=2:[]int32 int64_contents=3:[]int64 uint_contents=4:[]uint32 uint64_contents=5:[]uint64 fp32_contents=6:[]float fp64_contents=7:[]double bytes_contents=8:[]bytes
`

const protocolPackage = "inference"

// Describe returns the descriptors of the Open Inference Protocol, for reflection.
func Describe() (*protoregistry.Files, error) {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("grpc_predict_v2.proto"), Package: proto.String(protocolPackage), Syntax: proto.String("proto3"),
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("GRPCInferenceService")}},
	}
	for _, c := range calls {
		method := &descriptorpb.MethodDescriptorProto{Name: proto.String(c.name), InputType: typeName(c.in), OutputType: typeName(c.out)}
		if c.name == "ModelStreamInfer" {
			method.ClientStreaming, method.ServerStreaming = proto.Bool(true), proto.Bool(true)
		}
		file.Service[0].Method = append(file.Service[0].Method, method)
	}
	byName := map[string]*descriptorpb.DescriptorProto{}
	for line := range strings.SplitSeq(strings.TrimSpace(messages), "\n") {
		words := strings.Fields(line)
		outer, inner, nested := strings.Cut(words[0], ".")
		message := &descriptorpb.DescriptorProto{Name: proto.String(outer)}
		if nested {
			message.Name = proto.String(inner)
			byName[outer].NestedType = append(byName[outer].NestedType, message)
		} else {
			file.MessageType = append(file.MessageType, message)
		}
		byName[words[0]] = message
		for _, word := range words[1:] {
			if err := addField(message, words[0], word); err != nil {
				return nil, fmt.Errorf("describe %s: %w", words[0], err)
			}
		}
	}
	described, err := protodesc.NewFile(file, nil)
	if err != nil {
		return nil, fmt.Errorf("describe the protocol: %w", err)
	}
	files := &protoregistry.Files{}
	return files, files.RegisterFile(described)
}

func typeName(message string) *string { return proto.String("." + protocolPackage + "." + message) }

// addField adds a field in the notation of messages.
func addField(to *descriptorpb.DescriptorProto, full, word string) error {
	name, rest, _ := strings.Cut(word, "=")
	number, kind, _ := strings.Cut(rest, ":")
	n, err := strconv.ParseInt(number, 10, 32)
	if err != nil {
		return err
	}
	label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
	field := &descriptorpb.FieldDescriptorProto{Name: proto.String(name), Number: proto.Int32(int32(n))}
	switch {
	case strings.HasPrefix(kind, "[]"):
		kind, label = kind[2:], descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	case strings.HasPrefix(kind, "?"):
		kind, field.OneofIndex = kind[1:], proto.Int32(0)
		if len(to.OneofDecl) == 0 {
			to.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String("parameter_choice")}}
		}
	case strings.HasPrefix(kind, "{}"):
		entry := &descriptorpb.DescriptorProto{Name: proto.String("ParametersEntry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}}
		for i, part := range []string{"key=1:string", "value=2:" + kind[2:]} {
			if err := addField(entry, full+".ParametersEntry", part); err != nil {
				return fmt.Errorf("field %d: %w", i, err)
			}
		}
		to.NestedType = append(to.NestedType, entry)
		kind, label = full+".ParametersEntry", descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	}
	field.Label = label.Enum()
	if scalar, ok := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(kind)]; ok {
		field.Type = descriptorpb.FieldDescriptorProto_Type(scalar).Enum()
	} else {
		field.Type, field.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), typeName(kind)
	}
	to.Field = append(to.Field, field)
	return nil
}
