import java.net.InetSocketAddress;
import java.util.function.Function;
import org.eclipse.californium.core.CoapResource;
import org.eclipse.californium.core.CoapServer;
import org.eclipse.californium.core.coap.CoAP.ResponseCode;
import org.eclipse.californium.core.coap.MediaTypeRegistry;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.core.server.resources.CoapExchange;
import org.eclipse.californium.core.server.resources.Resource;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.config.UdpConfig;
import org.eclipse.californium.scandium.DTLSConnector;
import org.eclipse.californium.scandium.config.DtlsConfig;
import org.eclipse.californium.scandium.config.DtlsConnectorConfig;
import org.eclipse.californium.scandium.dtls.SingleNodeConnectionIdGenerator;
import org.eclipse.californium.scandium.dtls.pskstore.AdvancedSinglePskStore;

/**
 * The resources of the plugtest lists on Californium, plain and, with the pre-shared key of the
 * arguments (identity, key), over DTLS. Prints the two ports, ends with its standard input.
 */
public class Plugtest {
	static byte version = 1;

	static class Text extends CoapResource {
		final Function<CoapExchange, String> body;
		final int format;

		Text(String name, int format, Function<CoapExchange, String> body) {
			super(name);
			this.format = format;
			this.body = body;
		}

		@Override
		public void handleGET(CoapExchange x) {
			String text = body.apply(x);
			if (text != null) {
				x.respond(ResponseCode.CONTENT, text, format);
			}
		}

		Text links(String attribute, String... values) {
			for (String v : values) {
				getAttributes().addAttribute(attribute, v);
			}
			return this;
		}
	}

	static Text text(String name, Function<CoapExchange, String> body) {
		return new Text(name, MediaTypeRegistry.TEXT_PLAIN, body);
	}

	/** separate acknowledges, and answers in a message of its own. */
	static String separate(CoapExchange x) {
		x.accept();
		return "separate";
	}

	static String validate(CoapExchange x) {
		byte[] tag = {version};
		x.setETag(tag);
		if (x.getRequestOptions().containsETag(tag)) {
			x.respond(ResponseCode.VALID);
			return null;
		}
		return "version " + version;
	}

	static Resource tree(String name, Resource child) {
		Resource parent = new CoapResource(name);
		parent.add(child);
		return parent;
	}

	static CoapEndpoint secure(Configuration config, String identity, String key) {
		DtlsConnectorConfig.Builder dtls = DtlsConnectorConfig.builder(config)
				.set(DtlsConfig.DTLS_ROLE, DtlsConfig.DtlsRole.SERVER_ONLY)
				.setAddress(new InetSocketAddress("127.0.0.1", 0))
				.setConnectionIdGenerator(new SingleNodeConnectionIdGenerator(6))
				.setAdvancedPskStore(new AdvancedSinglePskStore(identity, key.getBytes()));
		return new CoapEndpoint.Builder().setConfiguration(config)
				.setConnector(new DTLSConnector(dtls.build())).build();
	}

	public static void main(String[] args) throws Exception {
		CoapConfig.register();
		UdpConfig.register();
		DtlsConfig.register();
		Configuration config = Configuration.createStandardWithoutFile();
		CoapServer server = new CoapServer(config);
		server.addEndpoint(new CoapEndpoint.Builder().setConfiguration(config)
				.setInetSocketAddress(new InetSocketAddress("127.0.0.1", 0)).build());
		server.addEndpoint(secure(config, args[0], args[1]));
		server.add(text("test", x -> "test").links("rt", "Type1", "Type2").links("if", "If1"),
				text("link1", x -> "link1").links("rt", "Type1").links("if", "If1"),
				text("link2", x -> "link2").links("rt", "Type2", "Type3").links("if", "If2"),
				text("large", x -> "large".repeat(340)).links("sz", "1700"),
				new Text("path", MediaTypeRegistry.APPLICATION_LINK_FORMAT,
						x -> "</path/sub1>,</path/sub2>").links("ct", "40"),
				tree("seg1", tree("seg2", text("seg3", x -> "segments"))),
				text("query", x -> "/query?" + String.join("&", x.getRequestOptions().getUriQuery())),
				text("separate", Plugtest::separate), text("validate", Plugtest::validate),
				text("change", x -> String.valueOf(++version)));
		server.start();
		System.out.println(server.getEndpoints().get(0).getAddress().getPort() + " "
				+ server.getEndpoints().get(1).getAddress().getPort());
		System.in.transferTo(java.io.OutputStream.nullOutputStream());
		server.destroy();
	}
}
